// From logits to the next token: a chain of filters with a seeded generator of its own (same bits on every
// platform).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

struct SamplerOptions {
  float temperature = 0.8F;         ///< 0: greedy (lowest id among equals)
  std::int32_t top_k = 40;          ///< 0: off
  float top_p = 0.95F;              ///< 1: off
  float min_p = 0.05F;              ///< 0: off
  float typical_p = 1;              ///< 1: off
  float repeat_penalty = 1;         ///< 1: off
  std::int32_t repeat_last_n = 64;  ///< tokens looked back at; -1: all
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::uint64_t seed = 0xFFFFFFFF;  ///< 0xFFFFFFFF: random
};

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators"), its state filled by
/// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::array<std::uint64_t, 4> state_;
};

/// A token that may still be drawn, with its logit and, after softmax, its probability.
struct Candidate {
  TokenId id;
  float logit;
  double p;
};

/// The filters, each on candidates sorted by falling logit (lower id first among equals) and each keeping at
/// least one. Those that look at probabilities expect softmax() before and leave probabilities of the smaller
/// set to the next softmax().
namespace filter {
/// p = exp(logit/temperature) over their sum, in double: exact also where a logit or its quotient is
/// infinite.
void softmax(std::vector<Candidate>& candidates, double temperature = 1);
/// Keeps the k likeliest (all if k is 0) and sorts them; the one filter that takes candidates in any order.
void top_k(std::vector<Candidate>& candidates, std::size_t k);
/// Keeps the fewest whose probabilities sum up to at least p.
void top_p(std::vector<Candidate>& candidates, double p);
/// Keeps those at least p times as likely as the first.
void min_p(std::vector<Candidate>& candidates, double p);
/// Keeps the fewest, in the order of |surprise - entropy|, whose probabilities sum up to at least p (locally
/// typical sampling, arXiv 2202.00666), and leaves them sorted by logit.
void typical(std::vector<Candidate>& candidates, double p);
}  // namespace filter

/// Order: bias, penalties, then greedy or: top-k, typical, top-p, min-p, temperature, draw. No allocation
/// after the first call.
class Sampler {
 public:
  /// Throws Error for options out of range (NaN, negative temperature, bias of a token that is not there, …).
  Sampler(const SamplerOptions& options, std::size_t n_vocab);
  /// The next token, given the logits (n_vocab) and the tokens before it.
  TokenId next(std::span<const float> logits, std::span<const TokenId> history);
  /// The seed in use, also when it was chosen at random.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

 private:
  void load(std::span<const float> logits);
  void penalize(std::span<const TokenId> history);
  [[nodiscard]] TokenId greedy() const;
  TokenId draw();

  SamplerOptions options_;
  std::uint64_t seed_;
  Random random_;
  std::vector<Candidate> candidates_;
  std::vector<std::int32_t>
      counts_;  // of each token in the part of history that is penalized; zero between calls
};

}  // namespace cria
