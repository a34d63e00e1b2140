// Sums of products of activations over the tokens of a text, and what error feedback needs of them.
// Products of a window are summed by the float32 kernel, windows in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace cria {

/// A symmetric matrix [n][n], as its upper triangle.
class Triangle {
 public:
  explicit Triangle(std::size_t n) : n_(n), values_(n * (n + 1) / 2) {}

  [[nodiscard]] std::size_t size() const { return n_; }
  /// row(i)[j] is entry (i, j), for j ≥ i.
  [[nodiscard]] double* row(std::size_t i) { return values_.data() + i * n_ - i * (i + 1) / 2; }
  [[nodiscard]] const double* row(std::size_t i) const {
    return values_.data() + i * n_ - i * (i + 1) / 2;
  }
  [[nodiscard]] std::vector<double>& values() { return values_; }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  std::size_t n_;
  std::vector<double> values_;
};

/// Rows of activations, transposed: [width][rows]. Its memory is used again for each
/// window, since the system takes longer to clear a page than this takes to fill it.
class Columns {
 public:
  Columns(std::size_t width, unsigned threads) : width_(width), threads_(threads) {}

  /// Takes other rows, [n][width].
  void set(std::span<const float> rows) {
    set(rows.size(), [&](std::size_t i) { return rows[i]; });
  }
  /// Takes the rows a - b.
  void set_difference(std::span<const float> a, std::span<const float> b) {
    set(a.size(), [&](std::size_t i) { return a[i] - b[i]; });
  }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t rows() const { return values_.size() / width_; }
  [[nodiscard]] const float* column(std::size_t i) const { return &values_[i * rows()]; }

 private:
  template <class At>
  void set(std::size_t size, const At& at);

  std::size_t width_;
  unsigned threads_;
  std::vector<float> values_;
};

/// Σ x·xᵀ over rows x of width n.
class SquareSums {
 public:
  SquareSums(std::size_t n, const KernelSet& kernels, unsigned threads)
      : kernels_(kernels), threads_(threads), sums_(n) {}

  void add(const Columns& x);
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// Returns the sums divided by the number of rows; nothing is left.
  [[nodiscard]] Triangle take_mean();

 private:
  const KernelSet& kernels_;
  unsigned threads_;
  Triangle sums_;
  std::size_t rows_ = 0;
};

/// Σ a·bᵀ over rows a and b that belong together.
class ProductSums {
 public:
  ProductSums(std::size_t a_width, std::size_t b_width, const KernelSet& kernels, unsigned threads)
      : kernels_(kernels), threads_(threads), sums_(a_width * b_width) {}

  void add(const Columns& a, const Columns& b);
  /// Returns the sums divided by the number of rows, [a_width][b_width]; nothing is left.
  [[nodiscard]] std::vector<float> take_mean();

 private:
  const KernelSet& kernels_;
  unsigned threads_;
  std::vector<double> sums_;
  std::size_t rows_ = 0;
};

struct FeedbackOptions {
  double damping = 0.3;  ///< H's diagonal grows by this part of itself …
  bool even = false;     ///< … or of its mean, in all columns alike
  int descents = 2;      ///< passes of descent after each feedback
  int refits = 2;        ///< times that scales are refitted and codes chosen anew
  unsigned threads = 1;
};

/// The loss of quantized rows, and of what the encoder alone would have made.
struct FeedbackLoss {
  double found = 0, encoded = 0;
  FeedbackLoss& operator+=(const FeedbackLoss& other) {
    found += other.found;
    encoded += other.encoded;
    return *this;
  }
};

/// H damped and factored, ready for the rows of every matrix that reads these inputs.
class InputMoments {
 public:
  /// Takes H. Damping grows tenfold until H is positive definite; throws std::domain_error if it
  /// never is (a NaN, say). inverse: prepares take_inverse().
  InputMoments(Triangle moments, const FeedbackOptions& options, const KernelSet& kernels,
               bool inverse = false);

  [[nodiscard]] std::size_t size() const { return n_; }
  [[nodiscard]] double damping() const { return damping_; }  ///< as it was needed
  /// Row i of H with its damping, [n].
  [[nodiscard]] const float* row(std::size_t i) const { return &h_[i * n_]; }
  /// Returns H⁻¹, damped, [n][n]; nothing is left.
  [[nodiscard]] std::vector<float> take_inverse() { return std::move(inverse_); }
  /// Weights of columns for the encoder: how much of a column's error no later column can answer.
  [[nodiscard]] std::span<const float> importance() const { return importance_; }
  /// U, upper triangular, with H⁻¹ = Uᵀ·U for the columns in the given order; transposed, [n][n].
  [[nodiscard]] std::vector<float> transposed_factor(std::span<const std::uint32_t> order) const;

 private:
  void set_inverse(const std::vector<float>& u);

  const KernelSet& kernels_;
  std::size_t n_;
  FeedbackOptions options_;
  double damping_;
  std::vector<double> diagonal_;  // of H with its damping
  std::vector<float> h_, importance_, inverse_;
};

/// out[t][r] += Σ_k a[r][k]·x[t][k] for n_tokens rows of x, by the float32 kernel.
void add_products(const KernelSet& kernels, const float* a, std::size_t a_stride, std::size_t rows,
                  std::size_t cols, const float* x, std::size_t x_stride, std::size_t n_tokens,
                  float* out, std::size_t out_stride);
/// Calls f(i) for i in [0, n) on `threads` threads.
void for_each_on(unsigned threads, std::size_t n, const std::function<void(std::size_t)>& f);

// A square of a cache line's columns and rows at a time.
template <class At>
void Columns::set(std::size_t size, const At& at) {
  constexpr std::size_t kLine = 16;
  const std::size_t n = size / width_;
  values_.resize(size);
  for_each_on(threads_, (width_ + kLine - 1) / kLine, [&](std::size_t line) {
    const std::size_t begin = line * kLine, end = std::min(width_, begin + kLine);
    for (std::size_t first = 0; first < n; first += kLine)
      for (std::size_t i = begin; i < end; ++i)
        for (std::size_t r = first; r < std::min(n, first + kLine); ++r)
          values_[i * n + r] = at(r * width_ + i);
  });
}

}  // namespace cria
