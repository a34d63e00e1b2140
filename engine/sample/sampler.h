// From logits to the next token: a chain of steps with random numbers of its own (same bits on
// every platform).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/dry.h"
#include "engine/sample/filters.h"
#include "engine/sample/mirostat.h"
#include "engine/sample/options.h"
#include "engine/sample/penalties.h"

namespace cria {

/// Bit id % 64 of word id / 64 tells whether the token may be drawn; of words beyond the end: no.
/// Empty: every token may.
using TokenMask = std::span<const std::uint64_t>;

inline bool allows(TokenMask mask, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  return mask.empty() || (id / 64 < mask.size() && (mask[id / 64] >> id % 64 & 1) != 0);
}

/// Order: bias, then the steps in theirs (none at temperature 0 but penalties and DRY), then draw.
/// The random numbers of a token depend on the seed and on how many tokens were drawn before it, on
/// nothing else: whoever draws position by position gets the same text, however the logits were
/// computed. No allocation after the first call (with DRY: while the history does not grow).
class Sampler {
 public:
  /// tokenizer: for DRY's sequence breakers, else it may be null. Throws Error for options out of
  /// range.
  Sampler(const SamplerOptions& options, std::size_t n_vocab, const Tokenizer* tokenizer = nullptr);
  /// Whether one of the allowed tokens (at least one) may be drawn: not all of them have a bias of
  /// -infinity.
  [[nodiscard]] bool can_draw(TokenMask allowed = {}) const;
  /// The next token, given the tokens before it and the logits: n_vocab, or those of the first
  /// tokens, where no bias names another. allowed: at least one token; any of them where none can
  /// be drawn.
  TokenId next(std::span<const float> logits, std::span<const TokenId> history,
               TokenMask allowed = {});
  /// The seed in use, also when it was chosen at random.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  /// Tokens drawn so far.
  [[nodiscard]] std::uint64_t drawn() const noexcept { return drawn_; }

 private:
  void load(std::span<const float> logits, TokenMask allowed);
  void sort();
  void take(SamplerStep step, std::span<const TokenId> history, double random);
  void scale();

  SamplerOptions options_;
  std::size_t n_vocab_;
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;
  std::vector<std::pair<TokenId, float>> bias_;  // sorted by token
  std::vector<TokenId> never_;                   // whose bias is -infinity
  Penalties penalties_;
  Dry dry_;
  Mirostat mirostat_;
  std::vector<Candidate> candidates_;
  bool sorted_ = false;
};

}  // namespace cria
