// Activation functions, soft caps and clamps: every instruction set against the scalar one bit for
// bit, the scalar one against plain arithmetic in double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "kernels/kernels.h"
#include "tests/kernels/rows/row_test.h"

namespace cria {
namespace {

constexpr Activation kActivations[] = {
    {ActivationKind::Silu},          {ActivationKind::Gelu},
    {ActivationKind::ReluSquared},   {ActivationKind::Xielu, 0.8F, 0.6F, 0.5F, -1e-6F},
    {ActivationKind::ClampedSwiglu}, {ActivationKind::Sigmoid},
    {ActivationKind::GeluErf}};

bool needs_up(const Activation& a) { return a.kind == ActivationKind::ClampedSwiglu; }

TEST(Activate, SameBitsOnEveryIsa) {
  for (const Activation& a : kActivations) {
    SCOPED_TRACE(static_cast<int>(a.kind));
    expect_same_bits([&](const KernelSet& k, auto& gate, const auto& up) {
      k.activate(a, gate.data(), up.data(), gate.size());
    });
    if (needs_up(a)) continue;
    expect_same_bits([&](const KernelSet& k, auto& gate, const auto&) {
      k.activate(a, gate.data(), nullptr, gate.size());
    });
  }
  for (const float cap : {1.5F, 300.0F})  // 300: of z, of which some are bent
    expect_same_bits([&](const KernelSet& k, auto& x, const auto&) {
      k.scale(x.data(), cap / 30, x.size());
      k.soft_cap(x.data(), cap, x.size());
    });
  expect_same_bits(
      [](const KernelSet& k, auto& x, const auto&) { k.clamp(x.data(), 1.5F, x.size()); });
}

/// f(set, x) of numbers at the ends of their range, in every set.
template <class F>
void expect_same_extremes(F f) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> all = {std::numeric_limits<float>::quiet_NaN()};
  for (const float x : {0.0F, 1e-45F, 1e-39F, 1e-20F, 1.0F, 7.0F, 52.0F, 87.0F, 88.5F, 88.8F,
                        104.5F, 1e10F, 1e19F, 3e38F, kInfinity})
    all.insert(all.end(), {x, -x});
  const auto run = [&](const KernelSet& set) {
    Buffer<float> x(all.size());
    std::copy(all.begin(), all.end(), x.begin());
    f(set, x);
    for (float& v : x)
      if (std::isnan(v)) v = all[0];  // their signs are the machine's
    return x;
  };
  const Buffer<float> expected = run(scalar_kernels());
  for (const KernelSet* set : available_kernels()) EXPECT_TRUE(run(*set) == expected) << set->isa;
}

TEST(Activate, SameBitsOfExtremes) {
  for (const Activation& a : kActivations) {
    SCOPED_TRACE(static_cast<int>(a.kind));
    expect_same_extremes([&](const KernelSet& k, auto& gate) {
      const Buffer<float> up = copy_at(gate, 0);
      k.activate(a, gate.data(), up.data(), gate.size());
    });
    if (needs_up(a)) continue;
    expect_same_extremes(
        [&](const KernelSet& k, auto& gate) { k.activate(a, gate.data(), nullptr, gate.size()); });
  }
  for (const float cap : {30.0F, 1e6F, 3e38F})
    expect_same_extremes([&](const KernelSet& k, auto& x) { k.soft_cap(x.data(), cap, x.size()); });
  expect_same_extremes([](const KernelSet& k, auto& x) { k.clamp(x.data(), 30, x.size()); });
}

/// A number, and how far float arithmetic may be from it; errors of second order are left to
/// within().
struct Bounded {
  double value, error;

  [[nodiscard]] Bounded times(const Bounded& by) const {  // rounded
    const double product = value * by.value;
    return {product,
            std::abs(error * by.value) + std::abs(by.error * value) + std::abs(product) * kHalfUlp};
  }
  [[nodiscard]] double within() const { return error * 1.001 + 0x1p-149; }  // and of subnormals
};

/// 1/(1 + e^-t), rounded at the sum and at the quotient. t is wrong by a factor within 1 ± t_error,
/// exp by two units in the last place. Above e^88 it may be infinite.
Bounded logistic(double t, double t_error) {
  const double s = 1 / (1 + std::exp(-t)), e_error = t_error * std::abs(t) + 4 * kHalfUlp;
  return {s, s * ((1 - s) * e_error + 2 * kHalfUlp) + std::exp(-88.0)};
}

Bounded xielu(const Activation& a, double z) {
  const double linear = a.beta * z;
  if (z > 0) {
    const double square = a.alpha_p * z * z, sum = square + linear;
    return {sum, (square + std::abs(linear) + std::abs(sum)) * kHalfUlp};
  }
  const double e = std::exp(std::min(z, static_cast<double>(a.eps))), rest = e - 1 - z;
  const double bent = a.alpha_n * rest, sum = bent + linear;
  const double error =
      a.alpha_n * (4 * e + std::abs(e - 1) + std::abs(rest));  // exp, and two differences
  return {sum, (error + std::abs(bent) + std::abs(linear) + std::abs(sum)) * kHalfUlp};
}

/// act(z)·up; up none: act(z).
Bounded exact_activation(const Activation& a, double z, std::optional<double> up) {
  const Bounded factor = up ? Bounded{*up, 0} : Bounded{1, 0};
  switch (a.kind) {
    case ActivationKind::Silu: {
      const Bounded s = logistic(z, 0);
      return Bounded{z * s.value, std::abs(z) * s.error}.times(factor);
    }
    case ActivationKind::Sigmoid:
      return logistic(z, 0).times(factor);
    case ActivationKind::Gelu: {  // 2u: the cube is rounded twice, a constant and the sum once
      const double u = std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z);
      const Bounded s = logistic(2 * u, 4 * kHalfUlp);
      return Bounded{z * s.value, std::abs(z) * s.error}.times(factor);
    }
    case ActivationKind::GeluErf: {
      // The tail's polynomial is wrong by 6.4e-8; its coefficients, products and w by at most 12
      // roundings; exp by two units in the last place, its argument by one rounding. Where exp is
      // subnormal, half a unit of it is one of the product at most.
      const double t = std::abs(z), tail = t * std::erfc(t / std::numbers::sqrt2) / 2;
      const double gelu = std::max(z, 0.0) - tail;
      const double error =
          tail * (6.4e-8 + (12 + 4 + t * t / 2) * kHalfUlp) + std::abs(gelu) * kHalfUlp + 0x1p-149;
      return Bounded{gelu, error}.times(factor);
    }
    case ActivationKind::ReluSquared: {
      const double m = std::max(z, 0.0);
      return Bounded{m * m, m * m * kHalfUlp}.times(factor);
    }
    case ActivationKind::Xielu:
      return xielu(a, z).times(factor);
    case ActivationKind::ClampedSwiglu: {
      const double g = std::min(z, 7.0), u = std::clamp(*up, -7.0, 7.0) + 1;
      const Bounded s = logistic(1.702 * g, 2 * kHalfUlp);
      return Bounded{g * s.value, std::abs(g) * s.error}.times({u, std::abs(u) * kHalfUlp});
    }
  }
  return {};
}

TEST(Activate, FollowsItsFormula) {
  for (const Activation& a : kActivations) {
    for (const bool with_up : {true, false}) {
      if (needs_up(a) && !with_up) continue;
      for (const std::size_t n : row_lengths()) {
        Buffer<float> z(n), up(n);
        fill_random(z.data(), n, 3, 5);
        fill_random(up.data(), n, 4, 5);
        Buffer<float> got = copy_at(z, 0);
        scalar_kernels().activate(a, got.data(), with_up ? up.data() : nullptr, n);
        for (std::size_t i = 0; i < n; ++i) {
          const Bounded exact =
              exact_activation(a, z[i], with_up ? std::optional<double>(up[i]) : std::nullopt);
          ASSERT_NEAR(got[i], exact.value, exact.within())
              << static_cast<int>(a.kind) << " of " << z[i] << (with_up ? " times " : " and no ")
              << up[i];
        }
      }
    }
  }
}

TEST(SoftCap, FollowsItsFormula) {
  for (const float cap : {0.1F, 1.5F, 50.0F}) {
    for (const std::size_t n : row_lengths()) {
      Buffer<float> z(n);
      fill_random(z.data(), n, 3, 5);
      Buffer<float> got = copy_at(z, 0);
      scalar_kernels().soft_cap(got.data(), cap, n);
      for (std::size_t i = 0; i < n; ++i) {
        const double x = z[i], c = cap, exact = c * std::tanh(x / c);
        const double error =
            2 * c * logistic(-2 * x / c, 2 * kHalfUlp).error + std::abs(exact) * kHalfUlp;
        ASSERT_NEAR(got[i], exact, Bounded({exact, error}).within())
            << x << " with a cap of " << cap;
      }
    }
  }
}

/// If cap is much larger than x, the result is x times a series, rounded once. The series'
/// truncation and its own rounding are below 2^-20 of a unit in the last place. Otherwise it is cap
/// times a difference, each rounded.
TEST(SoftCap, IsAsExactForLargeCaps) {
  for (const float cap : {257.0F, -1e3F, 1e6F, 1e9F, 1e37F, 3e38F}) {
    for (const float deviation : {5.0F, std::abs(cap) / 30, std::abs(cap) / 4}) {
      Buffer<float> z(2048);
      fill_random(z.data(), z.size(), 3, deviation);
      Buffer<float> got = copy_at(z, 0);
      scalar_kernels().soft_cap(got.data(), cap, got.size());
      for (std::size_t i = 0; i < z.size(); ++i) {
        const double x = z[i], c = cap, exact = c * std::tanh(x / c);
        const double of_difference =
            2 * std::abs(c) * logistic(-2 * x / c, kHalfUlp).error + 2 * std::abs(exact) * kHalfUlp;
        const double error =
            std::abs(x / c) < 0.015 ? 1.001 * std::abs(exact) * kHalfUlp : of_difference;
        ASSERT_NEAR(got[i], exact, Bounded({exact, error}).within())
            << x << " with a cap of " << cap;
      }
    }
  }
}

TEST(Clamp, KeepsValuesWithinTheLimit) {
  for (const std::size_t n : row_lengths()) {
    Buffer<float> x(n);
    fill_random(x.data(), n, 3, 3);
    Buffer<float> got = copy_at(x, 0);
    scalar_kernels().clamp(got.data(), 2.5F, n);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(got[i], std::clamp(x[i], -2.5F, 2.5F));
  }
}

}  // namespace
}  // namespace cria
