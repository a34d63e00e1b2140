#include "engine/sample/filters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cria::filter {
namespace {

double entropy(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum -= c.p > 0 ? c.p * std::log(c.p) : 0;
  return sum;
}

}  // namespace

void softmax(std::vector<Candidate>& candidates) {
  const double top = std::ranges::max_element(candidates, {}, &Candidate::logit)->logit;
  double sum = 0;
  for (Candidate& c : candidates) sum += c.p = c.logit == top ? 1 : std::exp(c.logit - top);
  for (Candidate& c : candidates) c.p /= sum;
}

void top_k(std::vector<Candidate>& candidates, std::size_t k) {
  if (k > 0 && k < candidates.size()) {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k),
                     candidates.end(), likelier);
    candidates.resize(k);
  }
  std::sort(candidates.begin(), candidates.end(), likelier);
}

void top_p(std::vector<Candidate>& candidates, double p) {
  double sum = candidates.front().p;
  std::size_t n = 1;
  while (n < candidates.size() && sum < p) sum += candidates[n++].p;
  candidates.resize(n);
}

void min_p(std::vector<Candidate>& candidates, double p) {
  const double least = candidates.front().p * p;
  std::size_t n = 1;
  while (n < candidates.size() && candidates[n].p >= least) ++n;
  candidates.resize(n);
}

void typical(std::vector<Candidate>& candidates, double p) {
  const double expected = entropy(candidates);
  const auto distance = [expected](const Candidate& c) {
    return std::abs(-std::log(c.p) - expected);
  };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const double da = distance(a);
    const double db = distance(b);
    return da != db ? da < db : likelier(a, b);
  });
  top_p(candidates, p);
  std::sort(candidates.begin(), candidates.end(), likelier);
}

void top_n_sigma(std::vector<Candidate>& candidates, double n) {
  const double top = std::ranges::max_element(candidates, {}, &Candidate::logit)->logit;
  double count = 0, mean = 0, squares = 0;  // Welford's sums: logits may be huge
  for (const Candidate& c : candidates) {
    if (!std::isfinite(c.logit)) continue;
    const double from_mean = c.logit - mean;
    mean += from_mean / ++count;
    squares += from_mean * (c.logit - mean);
  }
  if (count == 0 || !std::isfinite(top)) return;
  const double least = top - n * std::sqrt(squares / count);
  std::erase_if(candidates, [least](const Candidate& c) { return c.logit < least; });
}

void xtc(std::vector<Candidate>& candidates, double threshold) {
  // A token without probability is not likely: a banned token must not be the only one left.
  const double least = std::max(threshold, std::numeric_limits<double>::denorm_min());
  std::size_t likely = 0;
  while (likely < candidates.size() && candidates[likely].p >= least) ++likely;
  if (likely > 1)
    candidates.erase(candidates.begin(),
                     candidates.begin() + static_cast<std::ptrdiff_t>(likely - 1));
}

void temperature(std::vector<Candidate>& candidates, double temperature) {
  if (temperature == 0) {
    candidates.front() = *std::ranges::min_element(candidates, likelier);
    candidates.resize(1);
  }
  for (Candidate& c : candidates) c.logit /= temperature == 0 ? 1 : temperature;
}

double dynamic_temperature(const std::vector<Candidate>& candidates, double low, double high,
                           double exponent) {
  if (candidates.size() < 2) return low;
  const double share = entropy(candidates) / std::log(static_cast<double>(candidates.size()));
  return low + (high - low) * std::pow(std::clamp(share, 0.0, 1.0), exponent);
}

}  // namespace cria::filter
