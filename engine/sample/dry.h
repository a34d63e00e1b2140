// DRY ("don't repeat yourself"): tokens that would make a repetition longer are penalized, the more
// the longer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/filters.h"
#include "engine/sample/options.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// P. E. Weidmann, "DRY: A modern repetition penalty that reliably prevents looping" (2024): for a
/// token t let n be the length of the longest end of the text that stood somewhere before with t
/// after it; from the allowed length on, multiplier · base^(n - allowed length) is subtracted from
/// t's logit. A repetition holds no sequence breaker, and breakers are not penalized. A token is a
/// breaker if its text holds one of the breaking texts, or if it is the last of those that "a" and
/// such a text consist of.
class Dry {
 public:
  /// tokenizer: null where there are no breakers.
  Dry(const SamplerOptions& options, std::size_t n_vocab, const Tokenizer* tokenizer);
  /// Keeps the order of the candidates, which need not be sorted. False: nothing to do. In time
  /// proportional to the history and the candidates.
  bool apply(std::vector<Candidate>& candidates, std::span<const TokenId> history);

 private:
  void find_breakers(const std::vector<std::string>& texts, const Tokenizer& tokenizer);
  [[nodiscard]] bool is_breaker(TokenId id) const {
    return breakers_[static_cast<std::size_t>(id)];
  }
  bool find_repetitions(std::span<const TokenId> text);

  double multiplier_, base_;
  std::int32_t allowed_, last_n_;
  std::vector<bool> breakers_;  // by token
  std::vector<std::uint32_t>
      before_;  // by distance from the end: how much of the end stood there too
  std::vector<std::uint32_t>
      longest_;  // by token: the longest repetition it would go on; 0 between calls
};

}  // namespace cria
