#include "engine/calibrate/second_moments.h"

#include <algorithm>

#include "engine/calibrate/feedback.h"

namespace cria {
namespace {

constexpr std::size_t kProductRows = 32;  // of sums, that a thread adds to at once

// A cache line of columns at a time.
std::vector<float> by_column(std::span<const float> from, std::size_t width, unsigned threads) {
  constexpr std::size_t kLine = 16;
  const std::size_t rows = from.size() / width;
  std::vector<float> to(from.size());
  for_each_on(threads, (width + kLine - 1) / kLine, [&](std::size_t line) {
    const std::size_t begin = line * kLine, end = std::min(width, begin + kLine);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = begin; i < end; ++i) to[i * rows + r] = from[r * width + i];
  });
  return to;
}

// Calls add(i, j, values, n) for rows i of a's products with columns [j, j + n) of b. first(i): the
// first column that is wanted of the rows from i on.
template <class First, class Add>
void each_product(const KernelSet& kernels, unsigned threads, const std::vector<float>& a,
                  std::size_t a_width, const std::vector<float>& b, std::size_t b_width,
                  const First& first, const Add& add) {
  const std::size_t rows = a.size() / a_width;
  for_each_on(threads, (a_width + kProductRows - 1) / kProductRows, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kProductRows, end = std::min(a_width, begin + kProductRows);
    const std::size_t from = first(begin), n = b_width - from;
    std::vector<float> products((end - begin) * n);
    add_products(kernels, &b[from * rows], rows, n, rows, &a[begin * rows], rows, end - begin,
                 products.data(), n);
    for (std::size_t i = begin; i < end; ++i) add(i, from, &products[(i - begin) * n], n);
  });
}

}  // namespace

void SquareSums::add(std::span<const float> x) {
  const std::size_t n = sums_.size();
  if (x.empty()) return;
  const std::vector<float> columns = by_column(x, n, threads_);
  each_product(
      kernels_, threads_, columns, n, columns, n, [](std::size_t begin) { return begin; },
      [&](std::size_t i, std::size_t from, const float* products, std::size_t) {
        double* const row = sums_.row(i);
        for (std::size_t j = i; j < n; ++j) row[j] += products[j - from];
      });
  rows_ += x.size() / n;
}

Triangle SquareSums::take_mean() {
  Triangle mean = std::move(sums_);
  for (double& value : mean.values()) value /= static_cast<double>(std::max<std::size_t>(rows_, 1));
  return mean;
}

void ProductSums::add(std::span<const float> a, std::span<const float> b) {
  each_product(
      kernels_, threads_, by_column(a, a_width_, threads_), a_width_,
      by_column(b, b_width_, threads_), b_width_, [](std::size_t) { return std::size_t{0}; },
      [&](std::size_t i, std::size_t, const float* products, std::size_t n) {
        for (std::size_t j = 0; j < n; ++j) sums_[i * n + j] += products[j];
      });
  rows_ += a.size() / a_width_;
}

std::vector<float> ProductSums::take_mean() {
  const std::vector<double> sums = std::move(sums_);
  std::vector<float> mean(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    mean[i] = static_cast<float>(sums[i] / static_cast<double>(std::max<std::size_t>(rows_, 1)));
  return mean;
}

}  // namespace cria
