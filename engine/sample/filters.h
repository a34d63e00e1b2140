// The steps of sampling: filters remove tokens, penalties and DRY make repetitions less likely.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/options.h"
#include "model/token_id.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// A token that may still be sampled, with its logit and, after softmax(), its probability.
struct Candidate {
  TokenId id;
  double logit;
  double p;
};

/// The order of all filters: descending logit; on a tie, the lower id first.
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// Each filter keeps at least one token. All but softmax, top_k, top_n_sigma and temperature take
/// candidates sorted by likelier(). Filters on probabilities expect softmax() before them and do
/// not normalize what they keep.
namespace filter {
/// Sets p to exp(logit) divided by the sum over all candidates; exact for infinite logits, too.
void softmax(std::vector<Candidate>& candidates);
/// Keeps the k most likely tokens (0: all) and sorts them.
void top_k(std::vector<Candidate>& candidates, std::size_t k);
/// Keeps the fewest tokens whose probabilities sum to at least p (Holtzman et al., arXiv
/// 1904.09751).
void top_p(std::vector<Candidate>& candidates, double p);
/// Keeps tokens at least p times as likely as the first (Nguyen et al., arXiv 2407.01082).
void min_p(std::vector<Candidate>& candidates, double p);
/// Keeps the fewest tokens, in order of |surprise - entropy|, whose probabilities sum to at least p
/// (locally typical sampling, Meister et al., arXiv 2202.00666). Leaves them sorted by logit.
void typical(std::vector<Candidate>& candidates, double p);
/// Keeps logits of at least the largest minus n standard deviations of the finite ones (Tang et
/// al., arXiv 2411.07641). Keeps the order.
void top_n_sigma(std::vector<Candidate>& candidates, double n);
/// Exclude top choices (P. E. Weidmann, 2024): of the tokens of at least this probability, keeps
/// only the least likely, and all tokens below it.
void xtc(std::vector<Candidate>& candidates, double threshold);
/// Divides logits by the temperature; 0 keeps only the most likely token.
void temperature(std::vector<Candidate>& candidates, double temperature);
/// Returns low + (high - low) · (H/H_max)^exponent, with the entropy H of the probabilities and the
/// largest possible one, H_max (entropy-based dynamic temperature, kalomaze, 2023). For a single
/// candidate it returns low.
double dynamic_temperature(const std::vector<Candidate>& candidates, double low, double high,
                           double exponent);
}  // namespace filter

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
