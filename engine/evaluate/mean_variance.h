// Mean and variance of numbers that come one by one, in their order: the same bits whenever
// they are the same numbers.
#pragma once

#include <cmath>
#include <cstdint>

namespace cria {

/// Welford's recurrence (Technometrics 4, 1962).
struct MeanVariance {
  std::uint64_t n = 0;
  double mean = 0;
  double squares = 0;  ///< Σ (x - mean)²

  void add(double x) {
    ++n;
    const double before = x - mean;
    mean += before / static_cast<double>(n);
    squares += before * (x - mean);
  }
  /// Standard error of the mean, from the sample's variance; 0 for fewer than two numbers.
  [[nodiscard]] double error() const {
    return n < 2 ? 0 : std::sqrt(squares / (static_cast<double>(n) * static_cast<double>(n - 1)));
  }
};

}  // namespace cria
