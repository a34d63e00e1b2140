#include "engine/calibrate/moments.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

namespace cria {
namespace {

constexpr std::size_t kProductRows = 32;  // of sums, that a thread adds to at once

// Calls add(i, j, values, n) for rows i of a's products with columns [j, j + n) of b. first(i): the
// first column that is wanted of the rows from i on.
template <class First, class Add>
void each_product(const KernelSet& kernels, unsigned threads, const Columns& a, const Columns& b,
                  const First& first, const Add& add) {
  const std::size_t rows = a.rows();
  for_each_on(threads, (a.width() + kProductRows - 1) / kProductRows, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kProductRows, end = std::min(a.width(), begin + kProductRows);
    const std::size_t from = first(begin), n = b.width() - from;
    std::vector<float> products((end - begin) * n);
    add_products(kernels, b.column(from), rows, n, rows, a.column(begin), rows, end - begin,
                 products.data(), n);
    for (std::size_t i = begin; i < end; ++i) add(i, from, &products[(i - begin) * n], n);
  });
}

}  // namespace

void SquareSums::add(const Columns& x) {
  const std::size_t n = sums_.size();
  if (x.rows() == 0) return;
  each_product(
      kernels_, threads_, x, x, [](std::size_t begin) { return begin; },
      [&](std::size_t i, std::size_t from, const float* products, std::size_t) {
        double* const row = sums_.row(i);
        for (std::size_t j = i; j < n; ++j) row[j] += products[j - from];
      });
  rows_ += x.rows();
}

Triangle SquareSums::take_mean() {
  Triangle mean = std::move(sums_);
  for (double& value : mean.values()) value /= static_cast<double>(std::max<std::size_t>(rows_, 1));
  return mean;
}

void ProductSums::add(const Columns& a, const Columns& b) {
  each_product(
      kernels_, threads_, a, b, [](std::size_t) { return std::size_t{0}; },
      [&](std::size_t i, std::size_t, const float* products, std::size_t n) {
        for (std::size_t j = 0; j < n; ++j) sums_[i * n + j] += products[j];
      });
  rows_ += a.rows();
}

std::vector<float> ProductSums::take_mean() {
  const std::vector<double> sums = std::move(sums_);
  std::vector<float> mean(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    mean[i] = static_cast<float>(sums[i] / static_cast<double>(std::max<std::size_t>(rows_, 1)));
  return mean;
}

namespace {

constexpr double kMinSquare = 1e-6;  // mean square of a column, of the mean of all columns
constexpr std::size_t kPanel = 8;    // rows of a factor that others subtract together

// A triangular matrix [n][n] by rows: row(i)[j], j ≤ i.
class LowerTriangle {
 public:
  explicit LowerTriangle(std::size_t n) : values_(n * (n + 1) / 2) {}
  double* row(std::size_t i) { return &values_[i * (i + 1) / 2]; }
  const double* row(std::size_t i) const { return &values_[i * (i + 1) / 2]; }

 private:
  std::vector<double> values_;
};

// R, upper triangular, with A = Rᵀ·R, in place of A. False if A is not positive.
bool cholesky(Triangle& a, const KernelSet& kernels, unsigned threads) {
  const std::size_t n = a.size();
  for (std::size_t k = 0; k < n; k += kPanel) {
    const std::size_t rows = std::min(kPanel, n - k);
    for (std::size_t p = 0; p < rows; ++p) {
      double* const row = a.row(k + p);
      for (std::size_t q = 0; q < p; ++q) {
        const double* const above = a.row(k + q);
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
      const std::size_t first = k + rows + chunk * kRows;
      for (std::size_t i = first; i < std::min(n, first + kRows); ++i) {
        const double* above[kPanel];
        double factor[kPanel];
        for (std::size_t p = 0; p < rows; ++p) {
          above[p] = a.row(k + p) + i;
          factor[p] = above[p][0];
        }
        kernels.subtract_rows(a.row(i) + i, above, factor, rows, n - i);
      }
    });
  }
  return true;
}

// X = L⁻¹ for L = Rᵀ: lower triangular, by columns of X side by side.
LowerTriangle inverse_of_transpose(const Triangle& r, const KernelSet& kernels, unsigned threads) {
  const std::size_t n = r.size();
  LowerTriangle x(n);
  constexpr std::size_t kColumns = 64;
  static_assert(kColumns % kPanel == 0);
  for_each_on(n > 256 ? threads : 1, (n + kColumns - 1) / kColumns, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kColumns, end = std::min(n, begin + kColumns);
    // Row i -= rows [k, k + rows) of X times their entries of L, in columns up to that of row k.
    const auto subtract = [&](std::size_t i, std::size_t k, std::size_t rows) {
      const double* above[kPanel];
      double factor[kPanel];
      for (std::size_t p = 0; p < rows; ++p) {
        above[p] = x.row(k + p) + begin;
        factor[p] = r.row(k + p)[i];
      }
      kernels.subtract_rows(x.row(i) + begin, above, factor, rows, std::min(end, k + 1) - begin);
    };
    // A column of R is read eight entries, a cache line of each row, at a time.
    for (std::size_t first = begin; first < n; first += kPanel) {
      const std::size_t last = std::min(n, first + kPanel);
      for (std::size_t k = begin; k < first; k += k < end ? 1 : kPanel)
        for (std::size_t i = first; i < last; ++i) subtract(i, k, k < end ? 1 : kPanel);
      for (std::size_t i = first; i < last; ++i) {
        double* const row = x.row(i);
        if (i < end) row[i] = 1;
        for (std::size_t k = first; k < i; ++k) subtract(i, k, 1);
        const double inverse = 1 / r.row(i)[i];
        for (std::size_t j = begin; j < std::min(end, i + 1); ++j) row[j] *= inverse;
      }
    }
  });
  return x;
}

// H in reversed order is L·Lᵀ, so H⁻¹ = Uᵀ·U with U = L⁻¹ read backwards. Returns L⁻¹; nothing if
// H, [n][n] floats but for its diagonal, is not positive.
std::optional<LowerTriangle> factor_of(const std::vector<float>& h,
                                       const std::vector<double>& diagonal,
                                       std::span<const std::uint32_t> order,
                                       const KernelSet& kernels, unsigned threads) {
  const std::size_t n = order.size();
  Triangle reversed(n);
  for (std::size_t i = 0; i < n; ++i) {
    const float* const from = &h[order[n - 1 - i] * n];
    double* const row = reversed.row(i);
    row[i] = diagonal[order[n - 1 - i]];
    for (std::size_t j = i + 1; j < n; ++j) row[j] = from[order[n - 1 - j]];
  }
  if (!cholesky(reversed, kernels, threads)) return std::nullopt;
  return inverse_of_transpose(reversed, kernels, threads);
}

// Uᵀ, [n][n].
std::vector<float> transposed_upper(const LowerTriangle& inverse, std::size_t n) {
  std::vector<float> u(n * n);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t j = k; j < n; ++j)
      u[j * n + k] = static_cast<float>(inverse.row(n - 1 - k)[n - 1 - j]);
  return u;
}

}  // namespace

void add_products(const KernelSet& kernels, const float* a, std::size_t a_stride, std::size_t rows,
                  std::size_t cols, const float* x, std::size_t x_stride, std::size_t n_tokens,
                  float* out, std::size_t out_stride) {
  if (rows == 0) return;
  Activations acts;
  acts.type = ActType::F32;
  acts.n_tokens = n_tokens;
  acts.cols = cols;
  acts.f32 = x;
  acts.f32_stride = x_stride;
  MatMulJob job{};
  job.weights = reinterpret_cast<const std::byte*>(a);
  job.row_bytes = a_stride * sizeof(float);
  job.rows = rows;
  job.cols = cols;
  job.x = &acts;
  job.out = out;
  job.out_stride = out_stride;
  job.residual = out;
  thread_local std::vector<std::byte> scratch;
  scratch.resize(matmul_scratch_bytes(cols) + 64);
  void* place = scratch.data();
  std::size_t room = scratch.size();
  std::align(64, room - 64, place, room);
  kernels.matmul(DType::F32).run(job, 0, rows, static_cast<std::byte*>(place));
}

void for_each_on(unsigned threads, std::size_t n, const std::function<void(std::size_t)>& f) {
  if (threads <= 1 || n <= 1) {
    for (std::size_t i = 0; i < n; ++i) f(i);
    return;
  }
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, threads);
  tbb::task_arena arena(static_cast<int>(threads));
  arena.execute([&] { tbb::parallel_for(std::size_t{0}, n, f); });
}

InputMoments::InputMoments(Triangle moments, const FeedbackOptions& options,
                           const KernelSet& kernels, bool inverse)
    : kernels_(kernels),
      n_(moments.size()),
      options_(options),
      damping_(options.damping),
      diagonal_(n_),
      h_(n_ * n_) {
  double mean = 0;
  std::vector<double> diagonal(n_);
  for (std::size_t i = 0; i < n_; ++i) {
    const double* const row = moments.row(i);
    diagonal[i] = row[i];
    mean += row[i];
    for (std::size_t j = i; j < n_; ++j)
      h_[i * n_ + j] = h_[j * n_ + i] = static_cast<float>(row[j]);
  }
  moments = Triangle(0);
  mean /= static_cast<double>(n_);
  if (!std::isfinite(mean)) throw std::domain_error("moments are not finite");
  std::vector<std::uint32_t> natural(n_);
  std::iota(natural.begin(), natural.end(), 0U);
  std::optional<LowerTriangle> factor;
  for (;; damping_ *= 10) {
    for (std::size_t i = 0; i < n_; ++i) {
      const double square = options.even ? mean : std::max(diagonal[i], kMinSquare * mean);
      diagonal_[i] = diagonal[i] + (mean > 0 ? damping_ * square : 1);
      h_[i * n_ + i] = static_cast<float>(diagonal_[i]);
    }
    if ((factor = factor_of(h_, diagonal_, natural, kernels_, options_.threads))) break;
    if (damping_ > 1e6 * options.damping) throw std::domain_error("moments are not positive");
  }
  importance_.resize(n_);
  for (std::size_t i = 0; i < n_; ++i) {
    const double u = factor->row(n_ - 1 - i)[n_ - 1 - i];
    importance_[i] = static_cast<float>(1 / (u * u));
  }
  if (!inverse) return;
  const std::vector<float> u = transposed_upper(*factor, n_);
  factor.reset();
  set_inverse(u);
}

// H⁻¹[i][j] = Σ_k U[k][i]·U[k][j].
void InputMoments::set_inverse(const std::vector<float>& u) {
  inverse_.assign(n_ * n_, 0.0F);
  constexpr std::size_t kRows = 32;
  for_each_on(options_.threads, (n_ + kRows - 1) / kRows, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kRows, rows = std::min(kRows, n_ - begin);
    add_products(kernels_, u.data(), n_, n_, n_, &u[begin * n_], n_, rows, &inverse_[begin * n_],
                 n_);
  });
}

std::vector<float> InputMoments::transposed_factor(std::span<const std::uint32_t> order) const {
  const std::optional<LowerTriangle> inverse =
      factor_of(h_, diagonal_, order, kernels_, options_.threads);
  if (!inverse) throw std::domain_error("moments are not positive");
  return transposed_upper(*inverse, n_);
}

}  // namespace cria
