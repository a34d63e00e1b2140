// The project's own exponential: the same bits on every machine, which no libm promises.
#pragma once

#include "kernels/simd/f32x16.h"

namespace cria {

/// e^r, x = n*ln2 + r.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp_of_rest(const F32x16<Isa>& x, const F32x16<Isa>& n) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  V r = fma(n, c(-0.693147182F), x);
  r = fma(n, c(1.90465421e-09F), r);
  V q = c(0.0013926184F);
  q = fma(q, r, c(0.00836317893F));
  q = fma(q, r, c(0.0416665561F));
  q = fma(q, r, c(0.166665763F));
  q = fma(q, r, c(0.5F));
  return fma(r * r, q, r) + c(1.0F);
}

/// e^x to about one unit in the last place, for every float: 0 below -104, infinity above 89, NaN
/// stays NaN.
///
/// x = n*ln2 + r with |r| <= ln2/2, ln2 in two pieces; e^r = 1 + r + r²·q(r), q of degree 4
/// interpolating at Chebyshev nodes (relative error 1.1e-8); 2^n at last and rounded once, so that
/// subnormal results are rounded once and the largest do not overflow early.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  const V clamped =
      max(V::broadcast(-104.0F), min(V::broadcast(89.0F), x));  // NaN, the second, survives
  const V magic = V::broadcast(kRoundMagic),
          n = fma(clamped, V::broadcast(1.44269502F), magic) - magic;
  return scale2(exp_of_rest(clamped, n), n);
}

/// The same for x <= 0 or NaN, whose powers of two need no two factors that depend on x.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp_down(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  const V clamped = max(V::broadcast(-104.0F), x);
  const V magic = V::broadcast(kRoundMagic), bits = fma(clamped, V::broadcast(1.44269502F), magic),
          n = bits - magic;
  return scale2_down(exp_of_rest(clamped, n), n, bits);
}

/// e^x for x <= 0 or NaN by three quarters of the multiplications: relative error below 2.5e-7 for
/// x > -20, 5e-7 for x > -87; below that, e^-87.
///
/// x = n*ln2 + r as above, ln2 in one piece; e^r of degree 5, its last four coefficients the best
/// for the relative error.
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> exp_weight(const F32x16<Isa>& x) {
  using V = F32x16<Isa>;
  const auto c = [](float v) { return V::broadcast(v); };
  const V clamped = max(c(-87.0F), x), bits = fma(clamped, c(1.44269502F), c(kRoundMagic));
  const V r = fma(bits - c(kRoundMagic), c(-0.693147182F), clamped);
  V e = fma(c(0.00831252523F), r, c(0.0418901145F));
  e = fma(e, r, c(0.166671142F));
  e = fma(e, r, c(0.499992311F));
  e = fma(e, r, c(1.0F));
  return fma(e, r, c(1.0F)) * pow2(bits);
}

}  // namespace cria
