// Mirostat (Basu et al., arXiv 2007.14966): the surprise of the drawn tokens is held near a target.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/sample/filters.h"
#include "engine/sample/options.h"

namespace cria {

/// Surprise is -log2 p. The bound mu begins at 2 tau; after each token it changes by -eta (surprise
/// - tau), where the surprise is that among the tokens that were left.
class Mirostat {
 public:
  Mirostat(const SamplerOptions& options, std::size_t n_vocab);
  /// Takes away tokens, then draws one by a number that is uniform in [0, 1) and learns from it.
  /// The candidates are sorted.
  TokenId draw(std::vector<Candidate>& candidates, double random);
  [[nodiscard]] double mu() const noexcept { return mu_; }

 private:
  [[nodiscard]] std::size_t zipf_k(const std::vector<Candidate>& candidates) const;

  int version_;
  double tau_, eta_, mu_;
  double n_vocab_;
};

/// The token at which the sum of probabilities exceeds random, in the order of the candidates.
const Candidate& draw(const std::vector<Candidate>& candidates, double random);

}  // namespace cria
