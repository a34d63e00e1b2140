#include "engine/evaluate/divergence.h"

#include <algorithm>

#include "engine/model_parts.h"

namespace cria {

Hash session_hash(const Session& session) {
  Hash hash;
  hash.add_number(
      computation_fingerprint(session.model(), session.graph(), session.options().rope_ctx));
  hash.add_number(static_cast<std::uint64_t>(session.options().kv_type));
  return hash;
}

TokenComparison compare_token(const KernelSet& kernels, std::span<const float> q, double log_sum_q,
                              std::span<const float> p, std::size_t token) {
  const double log_sum_p = kernels.log_sum_exp(p.data(), p.size());
  // Σ p·((x_p - log_sum_p) - (x_q - log_sum_q)), where Σ p = 1; rounding can make it slightly
  // negative.
  const double divergence =
      kernels.mean_difference(p.data(), log_sum_p, q.data(), p.size()) + (log_sum_q - log_sum_p);
  const auto top = [](std::span<const float> row) {
    return std::ranges::max_element(row) - row.begin();
  };
  return {q[token] - log_sum_q, p[token] - log_sum_p, std::max(0.0, divergence), top(q) == top(p)};
}

void Divergence::add(const TokenComparison& token) {
  const double delta = std::exp(token.log_q) - std::exp(token.log_p);
  sums.base.add(-token.log_p);
  sums.model.add(-token.log_q);
  sums.log_ratio.add(token.log_p - token.log_q);
  sums.kld.add(token.divergence);
  sums.same_top.add(token.same_top ? 1 : 0);
  sums.delta_p.add(delta);
  sums.delta_p_squared.add(delta * delta);
  klds.push_back(static_cast<float>(token.divergence));
  delta_ps.push_back(static_cast<float>(delta));
}

std::vector<Quantile> quantiles(std::vector<float> values) {
  std::vector<Quantile> result;
  if (values.empty()) return result;
  std::ranges::sort(values);
  for (const double share :
       {0.0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0}) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double part = place - static_cast<double>(below);
    result.push_back({share, values[below] + part * (double{values[above]} - values[below])});
  }
  return result;
}

DivergenceResult Divergence::result() const {
  const auto estimate = [](const MeanVariance& m) { return Estimate{m.mean, m.error()}; };
  const auto exponential = [](const MeanVariance& m) {
    return Estimate{std::exp(m.mean), std::exp(m.mean) * m.error()};
  };
  DivergenceResult r;
  r.base_ppl = exponential(sums.base);
  r.ratio = exponential(sums.log_ratio);
  r.log_ratio = estimate(sums.log_ratio);
  // var(a - b) = var(a) + var(b) - 2 cov(a, b)
  const double spread = std::sqrt(sums.base.squares * sums.model.squares);
  if (spread > 0)
    r.correlation =
        (sums.base.squares + sums.model.squares - sums.log_ratio.squares) / (2 * spread);
  r.kld = estimate(sums.kld);
  r.kld_quantiles = quantiles(klds);
  r.same_top = estimate(sums.same_top);
  r.delta_p = estimate(sums.delta_p);
  const double rms = std::sqrt(sums.delta_p_squared.mean);
  r.delta_p_rms = {rms, rms > 0 ? sums.delta_p_squared.error() / (2 * rms) : 0};
  r.delta_p_quantiles = quantiles(delta_ps);
  return r;
}

}  // namespace cria
