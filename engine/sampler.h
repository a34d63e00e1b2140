// From logits to the next token: a chain of filters with a seeded generator of its own (same bits on every platform).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

struct SamplerOptions {
  float temperature = 0.8F;        ///< 0: greedy (lowest id among equals)
  std::int32_t top_k = 40;         ///< 0: off
  float top_p = 0.95F;             ///< 1: off
  float min_p = 0.05F;             ///< 0: off
  float typical_p = 1;             ///< 1: off
  float repeat_penalty = 1;        ///< 1: off
  std::int32_t repeat_last_n = 64; ///< tokens looked back at; -1: all
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::uint64_t seed = 0xFFFFFFFF; ///< 0xFFFFFFFF: random
};

/// Order: bias, penalties, then greedy or: top-k, typical, top-p, min-p, temperature, draw. No allocation after the first call.
class Sampler {
 public:
  Sampler(const SamplerOptions& options, std::size_t n_vocab);
  /// The next token, given the logits (n_vocab) and the tokens before it.
  TokenId next(std::span<const float> logits, std::span<const TokenId> history);
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }

 private:
  SamplerOptions options_;
  std::uint64_t seed_;
  std::uint64_t state_[4];
  std::vector<std::pair<float, TokenId>> candidates_;
  std::vector<float> work_;
};

}  // namespace cria
