// Step sizes and decays of recurrent layers from their projections. Numerics: kernels/README.md.
#pragma once

#include <cstddef>

#include "kernels/rows/row_ops.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// ln(1 + e^z) = max(z, 0) + ln(1 + u) with u = e^-|z|.
///
/// ln(1 + u) = 2·artanh(s), s = u/(u + 2) <= 1/3; artanh(s)/s = 1 + s²·q(s²), q of degree 4,
/// interpolated at Chebyshev nodes (relative error 1e-9).
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> softplus(const F32x16<Isa>& z) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  const V u = exp_down(c(0) - abs(z)), twice = (u + u) / (u + c(2)), s = twice * c(0.5F),
          ss = s * s;
  V q = c(0.11612165F);
  q = fma(q, ss, c(0.108532876F));
  q = fma(q, ss, c(0.142961785F));
  q = fma(q, ss, c(0.199998528F));
  q = fma(q, ss, c(0.333333343F));
  return max(c(0), z) + fma(twice * ss, q, twice);
}

/// KernelSet::softplus_decay.
template <class Isa>
void softplus_decay(const float* x, const float* bias, const float* a, std::size_t n_heads,
                    std::size_t per_head, float* dt, float* decay) {
  using V = F32x16<Isa>;
  const auto run = [&](std::size_t first, std::size_t n, auto factor) {
    for_each_group(n, [&](std::size_t at, std::size_t lanes) {
      const std::size_t i = first + at;
      V step = load_group<Isa>(x + i, lanes);
      if (bias != nullptr) step = step + load_group<Isa>(bias + i, lanes);
      step = softplus(step);
      if (decay != nullptr) store_group(exp(step * factor(i, lanes)), decay + i, lanes);
      if (dt != nullptr) store_group(step, dt + i, lanes);
    });
  };
  if (decay == nullptr)
    return run(0, n_heads * per_head, [](std::size_t, std::size_t) { return V::broadcast(0); });
  if (per_head == 1)
    return run(0, n_heads,
               [&](std::size_t i, std::size_t lanes) { return load_group<Isa>(a + i, lanes); });
  for (std::size_t head = 0; head < n_heads; ++head)
    run(head * per_head, per_head, [&](std::size_t, std::size_t) { return V::broadcast(a[head]); });
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
