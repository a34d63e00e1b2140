// Activation functions of feed-forward networks over rows of floats. Numerics: kernels/README.md.
#pragma once

#include "kernels/kernels.h"
#include "kernels/rows/row_ops.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// 1/(1 + e^-z)
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> sigmoid(const F32x16<Isa>& z) {
  using V = F32x16<Isa>;
  const V one = V::broadcast(1);
  return one / (one + exp(V::broadcast(0) - z));
}

/// The largest cap for which cap·tanh(z/cap) may be a difference of numbers of cap's size.
inline constexpr float kDifferenceCap = 256;

/// cap·tanh(z/cap) of a cap so large that most z are hardly changed.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> large_soft_cap(const F32x16<Isa>& z, float cap) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  const V x = z / c(cap), xx = x * x;
  const V series = fma(z * xx, fma(xx, c(2.0F / 15), c(-1.0F / 3)), z);
  return select_less(abs(x), c(0x1p-6F), series, c(cap) * (c(1) - c(2) / (exp(x + x) + c(1))));
}

/// cap·tanh(z/cap), as cap - 2·cap/(e^(2z/cap) + 1).
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> soft_cap(const F32x16<Isa>& z, float cap) {
  using V = F32x16<Isa>;
  if (__builtin_fabsf(cap) > kDifferenceCap) return large_soft_cap(z, cap);
  return V::broadcast(cap) -
         V::broadcast(2 * cap) / (exp(z * V::broadcast(2 / cap)) + V::broadcast(1));
}

/// t·Φ(-t) for t >= 0, Φ the normal distribution; NaN stays NaN. e^(t²/2)·Φ(-t) is w·p(w) with
/// w = 1/(1 + 0.35·t) and p of degree 8, interpolated at Chebyshev nodes (relative error 6.4e-8 up
/// to 14). Beyond 15, e^(-t²/2) is 0.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> normal_tail_times(const F32x16<Isa>& magnitude) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  const V t = min(c(15), magnitude), w = c(1) / fma(t, c(0.35F), c(1));
  V p = c(-0.0296795219F);
  p = fma(p, w, c(0.146545827F));
  p = fma(p, w, c(-0.260961235F));
  p = fma(p, w, c(0.165050998F));
  p = fma(p, w, c(-0.0270466078F));
  p = fma(p, w, c(0.107114591F));
  p = fma(p, w, c(0.119444914F));
  p = fma(p, w, c(0.139912292F));
  p = fma(p, w, c(0.13961871F));
  return t * (p * w) * exp_down(t * (t * c(-0.5F)));
}

/// gate = act(gate)·up, or act(gate) where up is null.
template <class Isa, class F>
void activate_with(float* gate, const float* up, std::size_t n, F act) {
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    const auto z = act(load_group<Isa>(gate + i, lanes));
    store_group(up == nullptr ? z : z * load_group<Isa>(up + i, lanes), gate + i, lanes);
  });
}

template <class Isa>
void activate(const Activation& activation, float* gate, const float* up, std::size_t n) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  const V zero = c(0), one = c(1);
  switch (activation.kind) {
    case ActivationKind::Silu:
      return activate_with<Isa>(gate, up, n, [&](const V& z) { return z / (one + exp(zero - z)); });
    case ActivationKind::Sigmoid:
      return activate_with<Isa>(gate, up, n, [&](const V& z) { return sigmoid(z); });
    case ActivationKind::Gelu:  // z/2·(1 + tanh u) = z/(1 + e^-2u), u = sqrt(2/pi)·(z +
                                // 0.044715·z³)
      return activate_with<Isa>(gate, up, n, [&](const V& z) {
        const V u2 = fma(z * z * z, c(0.07135481627159F), z * c(1.59576912160573F));
        return z / (one + exp(zero - u2));
      });
    case ActivationKind::GeluErf:
      return activate_with<Isa>(
          gate, up, n, [&](const V& z) { return max(zero, z) - normal_tail_times(abs(z)); });
    case ActivationKind::ReluSquared:
      return activate_with<Isa>(gate, up, n, [&](const V& z) {
        const V positive = max(z, zero);
        return positive * positive;
      });
    case ActivationKind::Xielu: {
      const V ap = c(activation.alpha_p), an = c(activation.alpha_n), beta = c(activation.beta),
              eps = c(activation.eps);
      return activate_with<Isa>(gate, up, n, [&](const V& z) {
        const V linear = beta * z, negative = an * (exp(min(z, eps)) - one - z);
        return select_less(zero, z, fma(ap * z, z, linear), negative + linear);
      });
    }
    case ActivationKind::ClampedSwiglu:
      for_each_group(n, [&](std::size_t i, std::size_t lanes) {
        const V limit = c(7), low = c(-7);
        const V g = min(load_group<Isa>(gate + i, lanes), limit);
        const V u = max(min(load_group<Isa>(up + i, lanes), limit), low);
        store_group(g / (one + exp(g * c(-1.702F))) * (u + one), gate + i, lanes);
      });
      return;
  }
}

/// x = cap·tanh(x/cap)
template <class Isa>
void soft_cap_row(float* x, float cap, std::size_t n) {
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    store_group(soft_cap(load_group<Isa>(x + i, lanes), cap), x + i, lanes);
  });
}

/// x = min(max(x, -limit), limit)
template <class Isa>
void clamp(float* x, float limit, std::size_t n) {
  using V = F32x16<Isa>;
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    const V v = load_group<Isa>(x + i, lanes);
    store_group(max(min(v, V::broadcast(limit)), V::broadcast(-limit)), x + i, lanes);
  });
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
