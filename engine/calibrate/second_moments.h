// Sums of products of activations over the tokens of a text. Products of a window are summed by the
// float32 kernel, windows in double.
#pragma once

#include <span>
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

/// Σ x·xᵀ over rows x of width n.
class SquareSums {
 public:
  SquareSums(std::size_t n, const KernelSet& kernels, unsigned threads)
      : kernels_(kernels), threads_(threads), sums_(n) {}

  void add(std::span<const float> x);
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
      : a_width_(a_width),
        b_width_(b_width),
        kernels_(kernels),
        threads_(threads),
        sums_(a_width * b_width) {}

  void add(std::span<const float> a, std::span<const float> b);
  /// Returns the sums divided by the number of rows, [a_width][b_width]; nothing is left.
  [[nodiscard]] std::vector<float> take_mean();

 private:
  std::size_t a_width_, b_width_;
  const KernelSet& kernels_;
  unsigned threads_;
  std::vector<double> sums_;
  std::size_t rows_ = 0;
};

}  // namespace cria
