#include "engine/session/speculation.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "engine/session/common_prefix.h"
#include "engine/session/fingerprint.h"

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

std::size_t look_up_draft(std::span<const TokenId> text, std::span<const TokenId> expected, std::size_t most,
                          std::vector<TokenId>& draft) {
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

DraftModel::DraftModel(const Model& draft, const Model& model, const EngineOptions& options)
    : owner_(draft.shared_from_this()), engine_(draft, options), sequence_(engine_), batch_(engine_) {
  if (fingerprint(draft.vocabulary()) != fingerprint(model.vocabulary()))
    throw draft.file().error("cannot draft for " + model.path() + ": expected the same vocabulary");
}

// Evaluates what is new of the text.
TokenId DraftModel::likeliest(std::span<const TokenId> text) {
  std::size_t known = sequence_.truncate(common_prefix(sequence_.tokens(), text.first(text.size() - 1)));
  for (std::size_t n = 0; known < text.size(); known += n) {
    batch_.clear();
    n = std::min(batch_.room(), text.size() - known);
    batch_.add(sequence_, text.subspan(known, n), known + n == text.size() ? n - 1 : n);
    batch_.forward();
  }
  const std::span<const float> logits = batch_.logits(0, 1);
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

void DraftModel::guess(std::span<const TokenId> text, std::size_t most, std::vector<TokenId>& draft) {
  std::vector<TokenId> longer(text.begin(), text.end());
  draft.clear();
  while (draft.size() < most && longer.size() < engine_.options().n_ctx) {
    draft.push_back(likeliest(longer));
    longer.push_back(draft.back());
  }
}

// Between sizes that were measured, in proportion; beyond them, that a token costs little: whoever tries learns.
double DraftControl::cost(std::size_t tokens) const {
  if (costs_[tokens] > 0) return costs_[tokens];
  std::size_t below = tokens, above = tokens;
  while (below > 1 && costs_[below] == 0) --below;
  while (above + 1 < costs_.size() && costs_[above] == 0) ++above;
  if (costs_[above] == 0) return costs_[below] * (1 + 0.1 * static_cast<double>(tokens - below));
  const double share = static_cast<double>(tokens - below) / static_cast<double>(above - below);
  return costs_[below] + share * (costs_[above] - costs_[below]);
}

std::size_t DraftControl::length(std::size_t agree) const {
  if (costs_[1] == 0 || agree == 0) return 0;
  const Rate& rate = rates_[bucket(agree)];
  const double right = rate.right / rate.of;
  std::size_t best = 0;
  double best_speed = 1 / costs_[1], tokens = 1, chance = 1;
  for (std::size_t n = 1; n <= kMostDraft; ++n) {
    chance *= right;
    tokens += chance;
    const double seconds = cost(n + 1);
    if (tokens / seconds <= best_speed || seconds - costs_[1] > purse()) continue;
    best = n;
    best_speed = tokens / seconds;
  }
  return best;
}

void DraftControl::passed(std::size_t agree, std::size_t drafted, std::size_t kept, double seconds) {
  elapsed_ += seconds;
  double& known = costs_[drafted + 1];
  known = known == 0 ? seconds : known + (seconds - known) / 8;
  if (drafted == 0) return;
  balance_ += static_cast<double>(kept + 1) * costs_[1] - seconds;
  Rate& rate = rates_[bucket(agree)];
  constexpr double kMemory = 64;  // guesses
  rate.right += static_cast<double>(kept);
  rate.of += static_cast<double>(std::min(drafted, kept + 1));
  if (rate.of > kMemory) rate = {rate.right * kMemory / rate.of, kMemory};
}

}  // namespace cria
