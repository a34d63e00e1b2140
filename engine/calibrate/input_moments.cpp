#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "engine/calibrate/feedback.h"

namespace cria {
namespace {

constexpr std::size_t kPanel = 8;  // rows of a factor that others subtract at once

// row[j] -= Σ_p factor[p]·panel[p][j] for j in [begin, n), in the order of p.
void subtract_panel(double* row, const double* const (&panel)[kPanel],
                    const double (&factor)[kPanel], std::size_t rows, std::size_t begin,
                    std::size_t n) {
  if (rows == kPanel) {
    for (std::size_t j = begin; j < n; ++j) {
      double sum = row[j];
      for (std::size_t p = 0; p < kPanel; ++p) sum -= factor[p] * panel[p][j];
      row[j] = sum;
    }
    return;
  }
  for (std::size_t p = 0; p < rows; ++p)
    for (std::size_t j = begin; j < n; ++j) row[j] -= factor[p] * panel[p][j];
}

// R, upper triangular, with A = Rᵀ·R, in place of A's upper triangle. False if A is not positive.
bool cholesky(std::vector<double>& a, std::size_t n, unsigned threads) {
  for (std::size_t k = 0; k < n; k += kPanel) {
    const std::size_t rows = std::min(kPanel, n - k);
    for (std::size_t p = 0; p < rows; ++p) {
      double* const row = &a[(k + p) * n];
      for (std::size_t q = 0; q < p; ++q) {
        const double* const above = &a[(k + q) * n];
        const double factor = above[k + p];
        for (std::size_t j = k + p; j < n; ++j) row[j] -= factor * above[j];
      }
      if (!(row[k + p] > 0) || !std::isfinite(row[k + p])) return false;
      const double inverse = 1 / std::sqrt(row[k + p]);
      for (std::size_t j = k + p; j < n; ++j) row[j] *= inverse;
    }
    const std::size_t rest = n - k - rows;
    constexpr std::size_t kRows = 16;
    for_each_on(n - k > 256 ? threads : 1, (rest + kRows - 1) / kRows, [&](std::size_t chunk) {
      const double* panel[kPanel];
      for (std::size_t p = 0; p < kPanel; ++p) panel[p] = &a[std::min(k + p, n - 1) * n];
      const std::size_t first = k + rows + chunk * kRows;
      for (std::size_t i = first; i < std::min(n, first + kRows); ++i) {
        double factor[kPanel] = {};
        for (std::size_t p = 0; p < rows; ++p) factor[p] = panel[p][i];
        subtract_panel(&a[i * n], panel, factor, rows, i, n);
      }
    });
  }
  return true;
}

// X = L⁻¹ for L = Rᵀ: lower triangular, by columns of X side by side.
std::vector<double> inverse_of_transpose(const std::vector<double>& r, std::size_t n,
                                         unsigned threads) {
  std::vector<double> x(n * n);
  constexpr std::size_t kColumns = 64;
  for_each_on(n > 256 ? threads : 1, (n + kColumns - 1) / kColumns, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kColumns, end = std::min(n, begin + kColumns);
    for (std::size_t i = begin; i < n; ++i) {
      double* const row = &x[i * n];
      if (i < end) row[i] = 1;
      for (std::size_t k = begin; k < i; ++k) {
        const double factor = r[k * n + i];
        const double* const above = &x[k * n];
        for (std::size_t j = begin; j < std::min(end, k + 1); ++j) row[j] -= factor * above[j];
      }
      const double inverse = 1 / r[i * n + i];
      for (std::size_t j = begin; j < std::min(end, i + 1); ++j) row[j] *= inverse;
    }
  });
  return x;
}

}  // namespace

void for_each_on(unsigned threads, std::size_t n, const std::function<void(std::size_t)>& f) {
  if (threads <= 1 || n <= 1) {
    for (std::size_t i = 0; i < n; ++i) f(i);
    return;
  }
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, threads);
  tbb::task_arena arena(static_cast<int>(threads));
  arena.execute([&] { tbb::parallel_for(std::size_t{0}, n, f); });
}

InputMoments::InputMoments(std::span<const double> moments, std::size_t n,
                           const FeedbackOptions& options, const KernelSet& kernels)
    : n_(n), options_(options), kernels_(kernels), damping_(options.damping) {
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) mean += moments[i * n + i];
  mean /= static_cast<double>(n);
  if (!std::isfinite(mean)) throw std::domain_error("moments are not finite");
  std::vector<std::uint32_t> natural(n);
  std::iota(natural.begin(), natural.end(), 0U);
  std::vector<double> inverse;
  for (;; damping_ *= 10) {
    h_.assign(moments.begin(), moments.end());
    added_ = mean > 0 ? damping_ * mean : 1;
    for (std::size_t i = 0; i < n; ++i) h_[i * n + i] += added_;
    if (factor(natural, inverse)) break;
    if (damping_ > 1e6 * options.damping) throw std::domain_error("moments are not positive");
  }
  h32_.assign(h_.begin(), h_.end());
  set_inverse(inverse);
  importance_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double u = inverse[(n - 1 - i) * n + (n - 1 - i)];
    importance_[i] = static_cast<float>(1 / (u * u));
  }
}

// H⁻¹[i][j] = Σ_k U[k][i]·U[k][j].
void InputMoments::set_inverse(const std::vector<double>& factor) {
  std::vector<float> u(n_ * n_);  // transposed
  for (std::size_t k = 0; k < n_; ++k)
    for (std::size_t j = k; j < n_; ++j)
      u[j * n_ + k] = static_cast<float>(factor[(n_ - 1 - k) * n_ + (n_ - 1 - j)]);
  inverse_.assign(n_ * n_, 0.0F);
  constexpr std::size_t kRows = 32;
  for_each_on(options_.threads, (n_ + kRows - 1) / kRows, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kRows, rows = std::min(kRows, n_ - begin);
    add_products(kernels_, u.data(), n_, n_, n_, &u[begin * n_], n_, rows, &inverse_[begin * n_],
                 n_);
  });
}

// H in reversed order is L·Lᵀ, so H⁻¹ = Uᵀ·U with U = L⁻¹ read backwards.
bool InputMoments::factor(std::span<const std::uint32_t> order,
                          std::vector<double>& inverse) const {
  std::vector<double> reversed(n_ * n_);
  for (std::size_t i = 0; i < n_; ++i) {
    const double* const from = &h_[order[n_ - 1 - i] * n_];
    for (std::size_t j = i; j < n_; ++j) reversed[i * n_ + j] = from[order[n_ - 1 - j]];
  }
  if (!cholesky(reversed, n_, options_.threads)) return false;
  inverse = inverse_of_transpose(reversed, n_, options_.threads);
  return true;
}

std::vector<float> InputMoments::transposed_factor(std::span<const std::uint32_t> order) const {
  std::vector<double> inverse;
  if (!factor(order, inverse)) throw std::domain_error("moments are not positive");
  std::vector<float> u(n_ * n_);
  for (std::size_t k = 0; k < n_; ++k)
    for (std::size_t j = k; j < n_; ++j)
      u[j * n_ + k] = static_cast<float>(inverse[(n_ - 1 - k) * n_ + (n_ - 1 - j)]);
  return u;
}

}  // namespace cria
