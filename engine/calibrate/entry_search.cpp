#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/calibrate/chunk.h"

namespace cria {

GroupMatrix inverse_of(const GroupMatrix& matrix, std::size_t n) {
  GroupMatrix a = matrix, inverse{};
  for (std::size_t i = 0; i < n; ++i) inverse[i][i] = 1;
  for (std::size_t k = 0; k < n; ++k) {  // Gauss and Jordan; pivots are positive
    const double pivot = 1 / a[k][k];
    for (std::size_t j = 0; j < n; ++j) {
      a[k][j] *= pivot;
      inverse[k][j] *= pivot;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = a[i][k];
      if (i == k || factor == 0) continue;
      for (std::size_t j = 0; j < n; ++j) {
        a[i][j] -= factor * a[k][j];
        inverse[i][j] -= factor * inverse[k][j];
      }
    }
  }
  return inverse;
}

EntrySearch::EntrySearch(const CodeFormat& format, std::size_t width, const GroupMatrix& metric,
                         const KernelSet& kernels)
    : format_(format),
      width_(width),
      parts_(width / format.group),
      metric_(metric),
      kernels_(kernels),
      planes_(format.book.size()),
      squares_(parts_ * format.entries()) {
  const std::size_t n = format.entries();
  for (std::size_t e = 0; e < n; ++e)
    for (std::size_t i = 0; i < format.group; ++i)
      planes_[i * n + e] = format.book[e * format.group + i];
  for (std::size_t i = 0; i < width; ++i) {
    const float* const plane = &planes_[i % format.group * n];
    float* const squares = &squares_[i / format.group * n];
    const auto weight = static_cast<float>(metric[i][i]);
    for (std::size_t e = 0; e < n; ++e) squares[e] += weight * plane[e] * plane[e];
  }
}

// Entries by what their errors cost column by column. odd: a sign must be wrong, the cheapest one.
EntrySearch::Candidates EntrySearch::shortlist(const double* target, std::size_t part,
                                               bool odd) const {
  const std::size_t n = format_.entries();
  std::vector<float> cost(squares_.begin() + static_cast<std::ptrdiff_t>(part * n),
                          squares_.begin() + static_cast<std::ptrdiff_t>((part + 1) * n));
  std::vector<float> wrong(odd ? n : 0, std::numeric_limits<float>::infinity());
  for (std::size_t i = 0; i < format_.group; ++i) {
    const std::size_t column = part * format_.group + i;
    const double x = format_.signs ? std::abs(target[column]) : target[column];
    const auto pull = static_cast<float>(metric_[column][column] * x);
    const float* const plane = &planes_[i * n];
    kernels_.add_scaled(cost.data(), plane, -2 * pull, n);
    for (std::size_t e = 0; e < wrong.size(); ++e) wrong[e] = std::min(wrong[e], pull * plane[e]);
  }
  for (std::size_t e = 0; e < wrong.size(); ++e) cost[e] += 4 * wrong[e];
  Candidates best;
  best.fill({std::numeric_limits<float>::infinity(), 0});
  for (std::size_t e = 0; e < n; ++e) {
    if (!(cost[e] < best.back().cost)) continue;
    std::size_t at = kShort - 1;
    for (; at > 0 && cost[e] < best[at - 1].cost; --at) best[at] = best[at - 1];
    best[at] = {cost[e], static_cast<std::uint16_t>(e)};
  }
  return best;
}

double EntrySearch::cost(const Found& found, const std::array<double, 8>& target) const {
  std::array<double, 8> error{};
  for (std::size_t i = 0; i < width_; ++i) error[i] = target[i] - found.q[i];
  double cost = 0;
  for (std::size_t i = 0; i < width_; ++i)
    for (std::size_t l = 0; l < width_; ++l) cost += error[i] * metric_[i][l] * error[l];
  return cost;
}

// Flips the sign, or the two signs where their number must stay even, that helps most; twice.
void EntrySearch::improve_signs(Found& found, const std::array<double, 8>& target) const {
  for (int round = 0; round < 2; ++round) {
    std::array<double, 8> pull{}, single{};  // flipping sign i adds 2·q[i] to the error
    for (std::size_t i = 0; i < width_; ++i) {
      for (std::size_t l = 0; l < width_; ++l) pull[i] += metric_[i][l] * (target[l] - found.q[l]);
      const double step = 2.0 * found.q[i];
      single[i] = 2 * step * pull[i] + step * step * metric_[i][i];
    }
    double best = 0;
    std::size_t first = width_, second = width_;
    for (std::size_t i = 0; i < width_; ++i) {
      if (!format_.even_signs && single[i] < best) {
        best = single[i];
        first = second = i;
      }
      for (std::size_t l = i + 1; format_.even_signs && l < width_; ++l) {
        const double both = single[i] + single[l] + 8.0 * found.q[i] * found.q[l] * metric_[i][l];
        if (both >= best) continue;
        best = both;
        first = i;
        second = l;
      }
    }
    if (first == width_) return;
    found.q[first] = static_cast<std::int16_t>(-found.q[first]);
    if (second != first) found.q[second] = static_cast<std::int16_t>(-found.q[second]);
  }
}

EntrySearch::Found EntrySearch::find(const std::array<double, 8>& target) const {
  const std::size_t group = format_.group;
  bool odd = false;
  for (std::size_t i = 0; format_.even_signs && i < width_; ++i) odd ^= target[i] < 0;
  const Candidates first = shortlist(target.data(), 0, odd && parts_ == 1);
  const Candidates other = parts_ == 2 ? shortlist(target.data(), 1, false) : Candidates{};
  const std::size_t some = parts_ == 2 ? 4 : kShort;  // candidates of each half
  Found best;
  best.cost = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < some; ++a) {
    for (std::size_t b = 0; b < (parts_ == 2 ? some : 1); ++b) {
      Found now;
      now.entry = {first[a].entry, parts_ == 2 ? other[b].entry : std::uint16_t{0}};
      for (std::size_t i = 0; i < width_; ++i) {
        const std::int16_t value = format_.book[now.entry[i / group] * group + i % group];
        now.q[i] = format_.signs && target[i] < 0 ? static_cast<std::int16_t>(-value) : value;
      }
      if (odd) {
        std::size_t cheapest = 0;
        const auto price = [&](std::size_t i) { return metric_[i][i] * target[i] * now.q[i]; };
        for (std::size_t i = 1; i < width_; ++i)
          if (price(i) < price(cheapest)) cheapest = i;
        now.q[cheapest] = static_cast<std::int16_t>(-now.q[cheapest]);
      }
      if (format_.signs) improve_signs(now, target);
      now.cost = cost(now, target);
      if (now.cost < best.cost) best = now;
    }
  }
  return best;
}

}  // namespace cria
