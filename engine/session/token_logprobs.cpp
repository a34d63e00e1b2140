#include "engine/session/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cria {

TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, std::size_t n) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  const double sum =
      std::accumulate(logits.begin(), logits.end(), 0.0, [&](double total, float logit) {
        return total + std::exp(static_cast<double>(logit) - highest);
      });
  const double log_sum = highest + std::log(sum);
  const auto logprob = [&](TokenId of) {
    return static_cast<float>(logits[static_cast<std::size_t>(of)] - log_sum);
  };
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  n = std::min(n, ids.size());
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(ids.begin(), end, ids.end(), [&](TokenId a, TokenId b) {
    const float left = logits[static_cast<std::size_t>(a)],
                right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
  });
  TokenLogprobs out{id, logprob(id), {}};
  for (auto likely = ids.begin(); likely != end; ++likely)
    out.top.emplace_back(*likely, logprob(*likely));
  return out;
}

}  // namespace cria
