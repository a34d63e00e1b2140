// Penalties for tokens that were there before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample/filters.h"
#include "engine/sample/options.h"

namespace cria {

class Penalties {
 public:
  Penalties(const SamplerOptions& options, std::size_t n_vocab);
  /// Repetition: logits above 0 are divided by the penalty, others multiplied (Keskar et al., arXiv
  /// 1909.05858). Frequency and presence are subtracted, once for each time and once. Of the tokens
  /// before the next one the last repeat_last_n count. Keeps the order of the candidates, which
  /// need not be sorted. False: nothing to do.
  bool apply(std::vector<Candidate>& candidates, std::span<const TokenId> history);

 private:
  float repeat_, presence_, frequency_;
  std::int32_t last_n_;
  std::vector<std::int32_t> counts_;  // by token; zero between calls
};

/// logit + change, where neither may be a number that is none: huge biases and penalties may sum up
/// to infinities, and what would be NaN is a token that is never drawn.
double changed_logit(double logit, double change);

}  // namespace cria
