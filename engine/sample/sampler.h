// The sampler: from logits to the next token, by a chain of steps and random numbers that are the
// same on every platform.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/filters.h"
#include "engine/sample/options.h"

namespace cria {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011):
/// a bijection of 128 bits for each key of 64.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The random numbers of one token: uniform in [0, 1), of 53 bits. They depend on the seed and on
/// the token's index in the answer, not on earlier tokens or on how often a pass was tried.
struct TokenRandom {
  double draw;     ///< selects the token
  double exclude;  ///< decides if XTC excludes

  static constexpr TokenRandom of(std::uint64_t seed, std::uint64_t index) {
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto words = philox({low(index), low(index >> 32), 0, 0}, {low(seed), low(seed >> 32)});
    const auto uniform = [](std::uint32_t a, std::uint32_t b) {
      return static_cast<double>((std::uint64_t{b} << 32 | a) >> 11) * 0x1p-53;
    };
    return {uniform(words[0], words[1]), uniform(words[2], words[3])};
  }
};

/// Returns the candidate at which the cumulative probability exceeds `random`.
const Candidate& draw(const std::vector<Candidate>& candidates, double random);

/// Mirostat (Basu et al., arXiv 2007.14966) keeps the surprise of sampled tokens, -log2 p, near a
/// target. The bound mu starts at 2 tau; each token changes it by -eta (surprise - tau), with the
/// surprise among the remaining tokens.
class Mirostat {
 public:
  Mirostat(const SamplerOptions& options, std::size_t n_vocab);
  /// Removes tokens, then samples one by a number that is uniform in [0, 1) and adapts. The
  /// candidates must be sorted.
  TokenId draw(std::vector<Candidate>& candidates, double random);
  [[nodiscard]] double mu() const noexcept { return mu_; }

 private:
  [[nodiscard]] std::size_t zipf_k(const std::vector<Candidate>& candidates) const;

  int version_;
  double tau_, eta_, mu_;
  double n_vocab_;
};

/// Bit id % 64 of word id / 64 is 1 if the token may be sampled; words beyond the end are 0. An
/// empty mask allows every token.
using TokenMask = std::span<const std::uint64_t>;

inline bool allows(TokenMask mask, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  return mask.empty() || (id / 64 < mask.size() && (mask[id / 64] >> id % 64 & 1) != 0);
}

/// Applies biases, then the steps in order (at temperature 0 only penalties and DRY), then samples.
/// A caller gets the same tokens however the logits were computed. Does not allocate after the
/// first call (with DRY: while the history does not grow).
class Sampler {
 public:
  /// The tokenizer is for DRY's sequence breakers; otherwise it may be null. Throws Error for
  /// options out of range.
  Sampler(const SamplerOptions& options, std::size_t n_vocab, const Tokenizer* tokenizer = nullptr);
  /// True if at least one allowed token has no bias of -infinity.
  [[nodiscard]] bool can_draw(TokenMask allowed = {}) const;
  /// Samples the next token. logits: n_vocab values, or only the first ones if no bias names
  /// another one. history: the tokens before it. allowed: at least one token; if all of them are
  /// forbidden by biases, any of them may result.
  TokenId next(std::span<const float> logits, std::span<const TokenId> history,
               TokenMask allowed = {});
  /// Returns the seed in use, given or random.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  /// Returns the number of tokens sampled so far.
  [[nodiscard]] std::uint64_t drawn() const noexcept { return drawn_; }

 private:
  friend struct SamplerStepRow;
  TokenId choose(std::span<const float> logits, std::span<const TokenId> history,
                 TokenMask allowed);
  void load(std::span<const float> logits, TokenMask allowed);
  void sort();
  void sort_and_normalize();
  void scale();

  SamplerOptions options_;
  std::size_t n_vocab_;
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  std::vector<std::pair<TokenId, float>> bias_;  // sorted by token
  std::vector<TokenId> never_;                   // tokens with a bias of -infinity
  Penalties penalties_;
  Dry dry_;
  Mirostat mirostat_;
  std::vector<Candidate> candidates_;
  bool sorted_ = false;
};

}  // namespace cria
