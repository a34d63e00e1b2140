// Penalties for tokens that have occurred before, and DRY for tokens that continue a repetition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/filters.h"
#include "engine/sample/options.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// Repetition, frequency and presence penalties.
class Penalties {
 public:
  Penalties(const SamplerOptions& options, std::size_t n_vocab);
  /// The repetition penalty divides logits above 0 of the last repeat_last_n tokens of the history
  /// and multiplies others (Keskar et al., arXiv 1909.05858). The frequency penalty is subtracted
  /// once for each time that a token was sampled, the presence penalty once. Keeps the order of the
  /// candidates, which need not be sorted. Returns false if it changed nothing.
  bool apply(std::vector<Candidate>& candidates, std::span<const TokenId> history);
  /// Counts a token of the answer.
  void sampled(TokenId id) {
    if (!sampled_.empty()) ++sampled_[static_cast<std::size_t>(id)];
  }

 private:
  float repeat_, presence_, frequency_;
  std::int32_t last_n_;
  std::vector<bool> recent_;           // by token; false between calls
  std::vector<std::int32_t> sampled_;  // by token: times in the answer; empty without penalties
};

/// DRY ("don't repeat yourself"), P. E. Weidmann, 2024. Let n be the length of the longest suffix
/// of the text that occurred before, followed by token t. From the allowed length on, multiplier ·
/// base^(n - allowed length) is subtracted from t's logit. A repetition contains no sequence
/// breaker, and breakers are not penalized. A token is a breaker if its text contains one of the
/// breaker strings, or if it is the last token of "a" followed by such a string.
class Dry {
 public:
  /// The tokenizer may be null if the options have no breakers.
  Dry(const SamplerOptions& options, std::size_t n_vocab, const Tokenizer* tokenizer);
  /// Keeps the order of the candidates, which need not be sorted. Returns false if it changed
  /// nothing. Takes time proportional to the history and the candidates.
  bool apply(std::vector<Candidate>& candidates, std::span<const TokenId> history);

 private:
  void find_breakers(const std::vector<std::string>& strings, const Tokenizer& tokenizer);
  [[nodiscard]] bool is_breaker(TokenId id) const {
    return breakers_[static_cast<std::size_t>(id)];
  }
  bool find_repetitions(std::span<const TokenId> text);

  double multiplier_, base_;
  std::int32_t allowed_, last_n_;
  std::vector<bool> breakers_;         // by token
  std::vector<std::uint32_t> before_;  // by distance from the end: length of the suffix found there
  std::vector<std::uint32_t> longest_;  // by token: the repetition it continues; 0 between calls
};

/// Returns logit + change. A sum that is NaN (infinite biases and penalties) becomes -infinity: the
/// token is never sampled.
double changed_logit(double logit, double change);

}  // namespace cria
