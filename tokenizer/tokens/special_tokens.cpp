#include "tokenizer/tokens/special_tokens.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace cria {

SpecialTokens::SpecialTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.text, a.control) < std::tie(b.text, b.control);
  });
  const auto same = [](const Entry& a, const Entry& b) {
    return a.text == b.text && a.control == b.control;
  };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (const Entry& entry : entries_) {
    if (entry.text.empty()) continue;
    for (const std::size_t control : {0U, 1U}) {
      if (entry.control && control == 0) continue;
      begins_[control][static_cast<unsigned char>(entry.text[0])] = any_[control] = true;
    }
  }
}

std::size_t SpecialTokens::find_candidate(std::string_view text, std::size_t from,
                                          bool control) const {
  if (!any_[control ? 1 : 0]) return text.size();
  const auto& begins = begins_[control ? 1 : 0];
  while (from < text.size() && !begins[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

// Narrows the sorted entries to those that share one more byte with the text, so that the cost is
// the length of what matches: vocabularies carry thousands of <unused123>, and text is full of '<'.
std::optional<SpecialTokens::Match> SpecialTokens::match(std::string_view text,
                                                         bool control) const {
  std::optional<Match> longest;
  auto low = entries_.begin(), high = entries_.end();
  for (std::size_t i = 0; i < text.size() && low != high; ++i) {
    const auto byte_at = [i](const Entry& entry) {
      return i < entry.text.size() ? static_cast<unsigned char>(entry.text[i]) : -1;
    };
    const int byte = static_cast<unsigned char>(text[i]);
    low =
        std::partition_point(low, high, [&](const Entry& entry) { return byte_at(entry) < byte; });
    high =
        std::partition_point(low, high, [&](const Entry& entry) { return byte_at(entry) == byte; });
    const auto usable = std::find_if(low, high, [&](const Entry& entry) {
      return entry.text.size() != i + 1 || control || !entry.control;
    });
    if (usable != high && usable->text.size() == i + 1)
      longest = Match{usable->id, i + 1, usable->strip_left, usable->strip_right};
  }
  return longest;
}

}  // namespace cria
