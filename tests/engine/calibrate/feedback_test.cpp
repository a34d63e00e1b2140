// Error feedback against a plain calculation in double, and what must not change its results.
#include "engine/calibrate/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "engine/calibrate/row_codes.h"

namespace cria {
namespace {

constexpr std::size_t kColumns = 256, kRows = 40;

struct Problem {
  std::vector<float> weights;   // [kRows][kColumns]
  std::vector<double> moments;  // [kColumns][kColumns]
};

// Inputs whose columns depend on one another, some much larger than others.
Problem random_problem(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Problem p{std::vector<float>(kRows * kColumns), std::vector<double>(kColumns * kColumns)};
  for (float& w : p.weights) w = static_cast<float>(0.05 * normal(random));
  constexpr std::size_t kInputs = 400;
  std::vector<double> x(kColumns);
  for (std::size_t t = 0; t < kInputs; ++t) {
    const double common = normal(random);
    for (std::size_t j = 0; j < kColumns; ++j)
      x[j] = (j % 37 == 0 ? 8 : 1) * (normal(random) + common + (j > 0 ? 0.5 * x[j - 1] : 0));
    for (std::size_t i = 0; i < kColumns; ++i)
      for (std::size_t j = 0; j < kColumns; ++j)
        p.moments[i * kColumns + j] += x[i] * x[j] / kInputs;
  }
  return p;
}

Triangle triangle(const Problem& p) {
  Triangle h(kColumns);
  for (std::size_t i = 0; i < kColumns; ++i)
    for (std::size_t j = i; j < kColumns; ++j) h.row(i)[j] = p.moments[i * kColumns + j];
  return h;
}

double loss_of(const std::vector<double>& h, const float* target, const float* values) {
  double loss = 0;
  for (std::size_t i = 0; i < kColumns; ++i)
    for (std::size_t j = 0; j < kColumns; ++j)
      loss +=
          (double{values[i]} - target[i]) * h[i * kColumns + j] * (double{values[j]} - target[j]);
  return loss;
}

std::vector<double> damped(const Problem& p, double damping) {
  std::vector<double> h = p.moments;
  for (std::size_t i = 0; i < kColumns; ++i) h[i * kColumns + i] *= 1 + damping;
  return h;
}

std::vector<std::byte> quantized(DType type, const Problem& p, const FeedbackOptions& options,
                                 const KernelSet& kernels, FeedbackLoss* loss = nullptr) {
  const InputMoments moments(triangle(p), options, kernels);
  std::vector<std::byte> out(dtype_info(type).row_bytes(kColumns) * kRows);
  const FeedbackLoss found =
      Feedback(type, moments, options, kernels).quantize(p.weights, out.data());
  if (loss != nullptr) *loss = found;
  return out;
}

std::vector<float> values_of(DType type, const std::vector<std::byte>& blocks) {
  std::vector<float> values(kRows * kColumns);
  dtype_info(type).dequantize_rows(blocks.data(), values.data(), kRows, kColumns);
  return values;
}

// The inverse of a symmetric positive definite matrix by Gauss and Jordan.
std::vector<double> inverse(std::vector<double> a) {
  std::vector<double> b(a.size());
  for (std::size_t i = 0; i < kColumns; ++i) b[i * kColumns + i] = 1;
  for (std::size_t k = 0; k < kColumns; ++k) {
    const double pivot = 1 / a[k * kColumns + k];
    for (std::size_t j = 0; j < kColumns; ++j) {
      a[k * kColumns + j] *= pivot;
      b[k * kColumns + j] *= pivot;
    }
    for (std::size_t i = 0; i < kColumns; ++i) {
      const double factor = a[i * kColumns + k];
      if (i == k || factor == 0) continue;
      for (std::size_t j = 0; j < kColumns; ++j) {
        a[i * kColumns + j] -= factor * a[k * kColumns + j];
        b[i * kColumns + j] -= factor * b[k * kColumns + j];
      }
    }
  }
  return b;
}

// Optimal brain quantization as in its paper: after each column, the inverse loses that column.
// Quantizes one row with the scales in `codes`.
std::vector<double> plain_feedback(const CodeFormat& f, const RowCodes& codes, const float* target,
                                   const std::vector<double>& h) {
  std::vector<double> left(target, target + kColumns), values(kColumns), inverse_h = inverse(h);
  std::vector<std::size_t> order(kColumns);
  for (std::size_t i = 0; i < kColumns; ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return h[a * kColumns + a] > h[b * kColumns + b];
  });
  for (const std::size_t j : order) {
    const double factor = codes.factor(f, j), constant = -codes.subtracted(f, j);
    double best = std::numeric_limits<double>::infinity();
    for (const std::int16_t q : f.grid) {
      if (std::abs(factor * q + constant - left[j]) >= best) continue;
      best = std::abs(factor * q + constant - left[j]);
      values[j] = factor * q + constant;
    }
    const double error = (left[j] - values[j]) / inverse_h[j * kColumns + j];
    const std::vector<double> column(
        inverse_h.begin() + static_cast<std::ptrdiff_t>(j * kColumns),
        inverse_h.begin() + static_cast<std::ptrdiff_t>((j + 1) * kColumns));
    for (std::size_t i = 0; i < kColumns; ++i) left[i] -= error * column[i];
    for (std::size_t i = 0; i < kColumns; ++i)
      for (std::size_t k = 0; k < kColumns; ++k)
        inverse_h[i * kColumns + k] -= column[i] * column[k] / column[j];
  }
  return values;
}

TEST(Feedback, IsThePlainCalculationInDouble) {
  const Problem p = random_problem(1);
  const FeedbackOptions options{.descents = 0, .refits = 0};
  const std::vector<double> h = damped(p, options.damping);
  const InputMoments moments(triangle(p), options, *active_kernels());
  for (const DType type : {DType::Q4_0, DType::Q3_K, DType::Q4_K, DType::IQ4_XS}) {
    const CodeFormat& format = code_format(type);
    const std::vector<float> values =
        values_of(type, quantized(type, p, options, *active_kernels()));
    std::vector<std::byte> encoded(dtype_info(type).row_bytes(kColumns));
    double found = 0, plain = 0;
    std::size_t same = 0;
    for (std::size_t r = 0; r < 8; ++r) {
      const float* const target = &p.weights[r * kColumns];
      active_kernels()->encode(type)(target, moments.importance().data(), kColumns, encoded.data());
      RowCodes codes;
      unpack_row(format, encoded.data(), kColumns, codes);
      const std::vector<double> expected = plain_feedback(format, codes, target, h);
      const std::vector<float> floats(expected.begin(), expected.end());
      found += loss_of(h, target, &values[r * kColumns]);
      plain += loss_of(h, target, floats.data());
      for (std::size_t j = 0; j < kColumns; ++j)
        same += std::abs(floats[j] - values[r * kColumns + j]) < 1e-6F;
    }
    EXPECT_LE(found, plain * 1.01) << name(type);  // a rounding may fall the other way
    EXPECT_GE(same, 8 * kColumns * 9 / 10) << name(type);
  }
}

TEST(Feedback, ReportsTheLossAndIsNeverWorseThanTheEncoder) {
  const Problem p = random_problem(2);
  const FeedbackOptions options;
  const std::vector<double> h = damped(p, options.damping);
#define CRIA_CASE(type, id)                                                                   \
  if (has_code_format(DType::type)) {                                                         \
    FeedbackLoss loss;                                                                        \
    const std::vector<float> values =                                                         \
        values_of(DType::type, quantized(DType::type, p, options, *active_kernels(), &loss)); \
    double found = 0;                                                                         \
    for (std::size_t r = 0; r < kRows; ++r)                                                   \
      found += loss_of(h, &p.weights[r * kColumns], &values[r * kColumns]);                   \
    EXPECT_NEAR(loss.found, found, 1e-3 * found) << #type;                                    \
    EXPECT_LT(loss.found, 0.95 * loss.encoded) << #type;                                      \
  }
  CRIA_DTYPES(CRIA_CASE)
#undef CRIA_CASE
}

TEST(Feedback, GivesTheSameBytesForThreadsAndInstructionSets) {
  const Problem p = random_problem(3);
  for (const DType type :
       {DType::Q3_K, DType::Q4_1, DType::IQ2_XS, DType::IQ3_XXS, DType::IQ4_KS}) {
    const std::vector<std::byte> expected = quantized(type, p, {}, *active_kernels());
    for (const unsigned threads : {2U, 3U})
      EXPECT_EQ(quantized(type, p, {.threads = threads}, *active_kernels()), expected);
    for (const KernelSet* const kernels : available_kernels())
      EXPECT_EQ(quantized(type, p, {}, *kernels), expected) << kernels->isa << ' ' << name(type);
  }
}

TEST(InputMoments, InvertTheDampedMoments) {
  const Problem p = random_problem(5);
  const FeedbackOptions options;
  const std::vector<double> expected = inverse(damped(p, options.damping));
  InputMoments moments(triangle(p), options, *active_kernels(), true);
  const std::vector<float> found = moments.take_inverse();
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(expected[i] - found[i]));
  }
  // Each entry is a sum of kColumns float products, none above `largest`.
  EXPECT_LT(error, kColumns * 0x1p-24 * largest);
}

TEST(SecondMoments, AreSumsOverTheRows) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  constexpr std::size_t kA = 37, kB = 50, kSome = 16;
  SquareSums squares(kB, *active_kernels(), 2);
  ProductSums products(kA, kB, *active_kernels(), 2);
  Columns of_a(kA, 2), of_b(kB, 2);
  std::vector<double> square(kB * kB), product(kA * kB);
  for (int window = 0; window < 3; ++window) {
    std::vector<float> a(kSome * kA), b(kSome * kB);
    for (float& value : a) value = normal(random);
    for (float& value : b) value = normal(random);
    of_a.set(a);
    of_b.set(b);
    squares.add(of_b);
    products.add(of_a, of_b);
    for (std::size_t r = 0; r < kSome; ++r) {
      for (std::size_t i = 0; i < kB; ++i)
        for (std::size_t j = 0; j < kB; ++j)
          square[i * kB + j] += double{b[r * kB + i]} * b[r * kB + j] / (3 * kSome);
      for (std::size_t i = 0; i < kA; ++i)
        for (std::size_t j = 0; j < kB; ++j)
          product[i * kB + j] += double{a[r * kA + i]} * b[r * kB + j] / (3 * kSome);
    }
  }
  EXPECT_EQ(squares.rows(), 3 * kSome);
  const Triangle mean = squares.take_mean();
  const std::vector<float> cross = products.take_mean();
  constexpr double kRounding = 25 * kSome * 0x1p-24;  // products below 25, kSome of them in floats
  for (std::size_t i = 0; i < kB; ++i)
    for (std::size_t j = i; j < kB; ++j)
      EXPECT_NEAR(mean.row(i)[j], square[i * kB + j], kRounding) << i << ' ' << j;
  for (std::size_t i = 0; i < cross.size(); ++i) EXPECT_NEAR(cross[i], product[i], kRounding) << i;
}

TEST(Feedback, DampsSingularMoments) {
  Problem p = random_problem(4);
  std::ranges::fill(p.moments, 1.0);  // all columns are the same
  const InputMoments moments(triangle(p), {.damping = 1e-18}, *active_kernels());
  EXPECT_GT(moments.damping(), 1e-18);
  std::ranges::fill(p.moments, 0.0);
  EXPECT_NO_THROW(InputMoments(triangle(p), {}, *active_kernels()));
  p.moments[3] = std::numeric_limits<double>::quiet_NaN();
  p.moments[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(InputMoments(triangle(p), {}, *active_kernels()), std::domain_error);
}

}  // namespace
}  // namespace cria
