#include "engine/session/ngram_draft.h"

#include <algorithm>

namespace cria {
namespace {

struct Occurrence {
  std::size_t agree = 0, end = 0;  // tokens; the place behind them
};

// Where the end of `text` occurs in `in` with something behind it.
Occurrence longest_occurrence(std::span<const TokenId> text, std::span<const TokenId> in) {
  constexpr std::size_t kEnough = 32;  // longer agreement says no more
  Occurrence best;
  for (std::size_t end = in.size(); end-- > 1;) {
    if (in[end - 1] != text.back()) continue;
    const std::size_t most = std::min({end, text.size(), kEnough});
    std::size_t agree = 1;
    while (agree < most && in[end - 1 - agree] == text[text.size() - 1 - agree]) ++agree;
    if (agree > best.agree) best = {agree, end};
    if (agree == kEnough) break;
  }
  return best;
}

}  // namespace

std::size_t ngram_draft(std::span<const TokenId> text, std::span<const TokenId> expected,
                        std::size_t most, std::vector<TokenId>& draft) {
  constexpr std::size_t kLeast = 2;
  draft.clear();
  if (!expected.empty()) {
    if (const Occurrence found = longest_occurrence(text, expected); found.agree >= kLeast) {
      const auto rest = expected.subspan(found.end, std::min(most, expected.size() - found.end));
      draft.assign(rest.begin(), rest.end());
      return found.agree;
    }
  }
  const Occurrence found = longest_occurrence(text, text);
  if (found.agree < kLeast) return 0;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t at = found.end + i;
    draft.push_back(at < text.size() ? text[at] : draft[at - text.size()]);
  }
  return found.agree;
}

}  // namespace cria
