// How AVX2 and AVX-VNNI lay out a panel. A template, so that each unit has its own copy, compiled
// with its own flags.
#pragma once

#include <immintrin.h>

namespace cria {

template <class Isa>
struct Transpose256 {
  /// 4×4 int32 in either 16-byte lane.
  static void transpose(__m256i (&v)[4]) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm256_unpacklo_epi64(a, c);
    v[1] = _mm256_unpackhi_epi64(a, c);
    v[2] = _mm256_unpacklo_epi64(b, d);
    v[3] = _mm256_unpackhi_epi64(b, d);
  }
  static void store(void* p, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(p), v); }
};

}  // namespace cria
