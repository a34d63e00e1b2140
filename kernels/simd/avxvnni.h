// Lanes of AVX2 with AVX-VNNI: two rows in a ymm register. See simd/row_lanes.h.
#pragma once

#include "kernels/simd/avx2.h"

namespace cria {

template <>
struct Dot256<AvxVnni> {
  static __m256i words(__m256i acc, __m256i a, __m256i b) {
    return _mm256_dpwssd_avx_epi32(acc, a, b);
  }
  static __m256i bytes(__m256i acc, __m256i u, __m256i s) {
    return _mm256_dpbusd_avx_epi32(acc, u, s);
  }
};

/// Scaled sums of small weights are left to AVX2's form, with an instruction less: sums of bytes as
/// int32 would need a product of int32 for their scale, two instructions on most processors.
template <>
struct RowLanes<AvxVnni> : TwoRows<AvxVnni> {
  static constexpr int kBias = 128;

  template <int Max>
  static Vec dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return dot_full(acc, w0, a0, w1, a1);
  }
  template <int Max>
  static Vec dot(Vec acc, Vec w, Vec a) {
    return Dot::bytes(acc, w, a);
  }
  static Vec dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return Dot::bytes(Dot::bytes(acc, w0, a0), w1, a1);
  }
  static Vec scaled_dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    const Vec wide = _mm256_srai_epi32(_mm256_slli_epi32(s, 16), 16);
    return _mm256_add_epi32(acc, _mm256_mullo_epi32(dot_full(zero(), w0, a0, w1, a1), wide));
  }
};

}  // namespace cria
