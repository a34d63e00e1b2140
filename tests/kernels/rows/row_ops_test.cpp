// Row kernels: every instruction set against the scalar one bit for bit, the scalar one against
// plain arithmetic in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/simd/f32x16.h"
#include "tests/kernels/rows/row_test.h"

namespace cria {
namespace {

// exp of one number, as vectors have it.
template <class Isa>
float exp_one(float x) {
  alignas(64) float out[kFloatLanes];
  exp(F32x16<Isa>::broadcast(x)).store(out);
  return out[0];
}

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(RowOps, SameBitsOnEveryIsa) {
  expect_same_bits(
      [](const KernelSet& k, auto& y, const auto& x) { k.add(y.data(), x.data(), y.size()); });
  expect_same_bits(
      [](const KernelSet& k, auto& y, const auto& x) { k.silu_mul(y.data(), x.data(), y.size()); });
  expect_same_bits([](const KernelSet& k, auto& y, const auto&) { k.softmax(y.data(), y.size()); });
  expect_same_bits([](const KernelSet& k, auto& y, const auto& x) {
    k.rms_norm(y.data(), x.data(), 1e-5F, y.data(), y.size());
  });
  expect_same_bits([](const KernelSet& k, auto& y, const auto& x) {
    k.layer_norm(y.data(), x.data(), x.data(), 1e-5F, y.data(), y.size());
  });
  expect_same_bits([](const KernelSet& k, auto& y, const auto& x) {
    k.layer_norm(x.data(), nullptr, nullptr, 1e-5F, y.data(), y.size());
  });
  expect_same_bits([](const KernelSet& k, auto& y, const auto& x) {
    k.add_scaled(y.data(), x.data(), 0.3F, y.size());
  });
  expect_same_bits(
      [](const KernelSet& k, auto& y, const auto&) { k.scale(y.data(), 0.3F, y.size()); });
}

TEST(RowOps, SumsAndScalesAreRoundedOnce) {
  for (const std::size_t n : row_lengths()) {
    Buffer<float> x(n), y(n);
    fill_random(x.data(), n, 3, 5);
    fill_random(y.data(), n, 4);
    Buffer<float> sum = copy_at(y, 0), scaled_sum = copy_at(y, 0), scaled = copy_at(x, 0);
    scalar_kernels().add(sum.data(), x.data(), n);
    scalar_kernels().add_scaled(scaled_sum.data(), x.data(), 0.3F, n);
    scalar_kernels().scale(scaled.data(), 0.3F, n);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(sum[i], y[i] + x[i]);
      EXPECT_EQ(scaled_sum[i], std::fma(0.3F, x[i], y[i]));
      EXPECT_EQ(scaled[i], x[i] * 0.3F);
    }
  }
}

// Products are rounded, and rows are subtracted one after the other.
TEST(RowOps, RowsOfDoublesAreSubtractedInOrder) {
  for (const std::size_t n : row_lengths()) {
    for (const std::size_t n_rows : {0U, 1U, 3U, 8U, 9U, 19U}) {
      std::mt19937 random(7);
      std::normal_distribution<double> normal;
      std::vector<double> y(n + 1), rows(n_rows * n + 1), factors(n_rows);
      for (std::vector<double>* const values : {&y, &rows, &factors})
        for (double& value : *values) value = normal(random);
      std::vector<const double*> row;
      for (std::size_t i = 0; i < n_rows; ++i) row.push_back(&rows[1 + i * n]);
      std::vector<double> expected = y;
      for (std::size_t i = 0; i < n_rows; ++i)
        for (std::size_t j = 0; j < n; ++j) {
          const double product = factors[i] * row[i][j];
          expected[1 + j] -= product;
        }
      for (const KernelSet* set : available_kernels()) {
        std::vector<double> found = y;
        set->subtract_rows(&found[1], row.data(), factors.data(), n_rows, n);
        EXPECT_EQ(found, expected) << set->isa << ' ' << n << ' ' << n_rows;
      }
    }
  }
}

TEST(RowOps, RmsNormFollowsItsFormula) {
  for (const std::size_t n : row_lengths()) {
    Buffer<float> x(n), w(n), y(n);
    fill_random(x.data(), n, 3, 5);
    fill_random(w.data(), n, 4);
    scalar_kernels().rms_norm(x.data(), w.data(), 1e-5F, y.data(), n);
    double squares = 0;
    for (float v : x) squares += static_cast<double>(v) * v;
    const double rms = 1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(1e-5F));
    // At most n/16 + 5 roundings of the sum (halved by the root), and six of the steps after it.
    const double tolerance = (static_cast<double>(n) / 32 + 9) * kHalfUlp;
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_NEAR(y[i], x[i] * rms * w[i], std::abs(x[i] * rms * w[i]) * tolerance);
  }
}

/// LayerNorm in double, and how far the kernel may be from it.
class ExactLayerNorm {
 public:
  ExactLayerNorm(const Buffer<float>& x, double eps) {
    const auto n = static_cast<double>(x.size());
    double sum = 0, size = 0, squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += x[i];
      size += std::abs(x[i]);
    }
    mean_ = sum / n;
    for (std::size_t i = 0; i < x.size(); ++i) squares += (x[i] - mean_) * (x[i] - mean_);
    const double variance = squares / n + eps;
    scale_ = 1 / std::sqrt(variance);
    // A sum is rounded at most n/16 + 5 times, then once by the division.
    const double roundings = n / 16 + 6;
    mean_error_ = roundings * kHalfUlp * size / n;
    // A wrong mean adds its error's square to the variance (in the first order it cancels); c is
    // rounded and squared, eps added; the root halves all that. Then the root, its reciprocal, c
    // itself, times the scale, times w.
    scale_error_ =
        ((roundings + 3) * kHalfUlp + mean_error_ * mean_error_ / variance) / 2 + 5 * kHalfUlp;
  }
  [[nodiscard]] double value(double x, double w, double b) const {
    return (x - mean_) * scale_ * w + b;
  }
  [[nodiscard]] double tolerance(double x, double w, double b) const {
    const double error = scale_ * std::abs(w) * (mean_error_ + std::abs(x - mean_) * scale_error_);
    return (error + std::abs(value(x, w, b)) * kHalfUlp) * 1.001;  // terms of second order
  }

 private:
  double mean_, scale_, mean_error_, scale_error_;
};

TEST(RowOps, LayerNormFollowsItsFormula) {
  for (const std::size_t n : row_lengths()) {
    Buffer<float> x(n), w(n), b(n), y(n), plain(n);
    fill_random(x.data(), n, 3, 5);
    for (float& v : x) v += 3;
    fill_random(w.data(), n, 4);
    fill_random(b.data(), n, 5);
    scalar_kernels().layer_norm(x.data(), w.data(), b.data(), 1e-5F, y.data(), n);
    scalar_kernels().layer_norm(x.data(), nullptr, nullptr, 1e-5F, plain.data(), n);
    const ExactLayerNorm exact(x, static_cast<double>(1e-5F));
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(y[i], exact.value(x[i], w[i], b[i]), exact.tolerance(x[i], w[i], b[i])) << n;
      EXPECT_NEAR(plain[i], exact.value(x[i], 1, 0), exact.tolerance(x[i], 1, 0)) << n;
    }
  }
}

TEST(RowOps, SoftmaxAddsUpToOneAndOrdersAsItsInput) {
  for (const std::size_t n : row_lengths()) {
    Buffer<float> x(n);
    fill_random(x.data(), n, 5, 4);
    Buffer<float> p = copy_at(x, 0);
    scalar_kernels().softmax(p.data(), n);
    const double top = *std::max_element(x.begin(), x.end());
    double sum = 0, total = 0;
    for (float v : x) total += std::exp(static_cast<double>(v) - top);
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = std::exp(static_cast<double>(x[i]) - top) / total;
      EXPECT_NEAR(p[i], exact, exact * (static_cast<double>(n) / 16 + 40) * kHalfUlp);
      sum += p[i];
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(RowOps, SiluOfLargeAndSmall) {
  for (const KernelSet* set : available_kernels()) {
    Buffer<float> gate(5), up(5);
    const float in[] = {-1000, -90, 0, 90, 1000};
    std::copy(std::begin(in), std::end(in), gate.begin());
    std::fill(up.begin(), up.end(), 2.0F);
    set->silu_mul(gate.data(), up.data(), 5);
    EXPECT_EQ(gate[0], 0) << set->isa;
    EXPECT_NEAR(gate[1], 0, 1e-35) << set->isa;
    EXPECT_EQ(gate[2], 0) << set->isa;
    EXPECT_EQ(gate[3], 180) << set->isa;
    EXPECT_EQ(gate[4], 2000) << set->isa;
  }
}

TEST(Exp, IsWithinTwoUlpOverTheWholeRange) {
  double worst = 0;
  for (float x = -87.3F; x < 88.7F; x += 0.00137F) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(exp_one<ScalarIsa>(x) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
}

TEST(Exp, Extremes) {
  EXPECT_EQ(exp_one<ScalarIsa>(0.0F), 1.0F);
  EXPECT_EQ(exp_one<ScalarIsa>(-kInf), 0.0F);
  EXPECT_EQ(exp_one<ScalarIsa>(-1e30F), 0.0F);
  EXPECT_EQ(exp_one<ScalarIsa>(kInf), kInf);
  EXPECT_EQ(exp_one<ScalarIsa>(1e30F), kInf);
  EXPECT_TRUE(std::isnan(exp_one<ScalarIsa>(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_NEAR(exp_one<ScalarIsa>(-100.0F), std::exp(-100.0),
              0x1p-149);  // a subnormal, to the nearest
}

TEST(Exp, OfWeightsIsClose) {
  const auto exp_of = [](float x) {
    float out[kFloatLanes];
    exp_weight(F32x16<ScalarIsa>::broadcast(x)).store(out);
    return out[0];
  };
  double near = 0, far = 0;
  for (float x = 0; x > -87; x -= 0.00137F) {
    const double exact = std::exp(static_cast<double>(x)),
                 error = std::abs(exp_of(x) - exact) / exact;
    (x > -20 ? near : far) = std::max(x > -20 ? near : far, error);
  }
  EXPECT_LT(near, 2.5e-7);
  EXPECT_LT(far, 5e-7);
  EXPECT_EQ(exp_of(0), 1);
  for (const float x : {-100.0F, -kInf}) EXPECT_NEAR(exp_of(x), 0, 2e-38);
  EXPECT_TRUE(std::isnan(exp_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Rope, SameBitsOnEveryIsaAndARotation) {
  for (const bool half_split : {false, true}) {
    for (const std::size_t head_dim : {2, 8, 40, 64, 80, 128}) {
      for (const std::size_t n_rot : {head_dim, head_dim / 4 * 2}) {
        const std::size_t heads = 3;
        Buffer<float> x(heads * head_dim), table(n_rot);
        fill_random(x.data(), x.size(), 6);
        for (std::size_t i = 0; i < n_rot / 2; ++i) {
          table[2 * i] = static_cast<float>(std::cos(0.3 + static_cast<double>(i)));
          table[2 * i + 1] = static_cast<float>(std::sin(0.3 + static_cast<double>(i)));
        }
        Buffer<float> expected = copy_at(x, 0);
        scalar_kernels().rope(expected.data(), heads, head_dim, n_rot, half_split, table.data());
        for (std::size_t h = 0; h < heads; ++h) {
          for (std::size_t i = 0; i < head_dim; ++i) {
            if (i >= n_rot) {
              EXPECT_EQ(expected[h * head_dim + i], x[h * head_dim + i]);
              continue;
            }
            const std::size_t half = n_rot / 2, pair = half_split ? i % half : i / 2;
            const bool second = half_split ? i >= half : i % 2 == 1;
            const std::size_t first = h * head_dim + (half_split ? pair : 2 * pair);
            const double x0 = x[first], x1 = x[first + (half_split ? half : 1)],
                         c = table[2 * pair], s = table[2 * pair + 1];
            const double exact = second ? x1 * c + x0 * s : x0 * c - x1 * s;
            EXPECT_NEAR(expected[h * head_dim + i], exact,
                        (std::abs(x0) + std::abs(x1)) * 2 * kHalfUlp);
          }
        }
        for (const KernelSet* set : available_kernels()) {
          Buffer<float> got = copy_at(x, 1);
          set->rope(got.data(), heads, head_dim, n_rot, half_split, table.data());
          EXPECT_TRUE(got == expected) << set->isa << " head_dim=" << head_dim << " n_rot=" << n_rot
                                       << " half=" << half_split;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cria
