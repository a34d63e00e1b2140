// What AVX2 and AVX-512 do alike: a float or an int32 of each of 8 rows in a ymm register. A
// template, so that each unit has its own copy, compiled with its own flags.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cria {

template <class Isa>
struct EightRows {
  using Float8 = __m256;
  using Int8 = __m256i;
  using RowPtr = const std::byte* const*;

  static __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static Int8 sub_all(Int8 v, int x) { return _mm256_sub_epi32(v, _mm256_set1_epi32(x)); }
  static Float8 to_float(Int8 v) { return _mm256_cvtepi32_ps(v); }
  static Float8 zero_float() { return _mm256_setzero_ps(); }
  static Float8 splat_float(float x) { return _mm256_set1_ps(x); }
  static Float8 mul(Float8 a, Float8 b) { return _mm256_mul_ps(a, b); }
  static Float8 fma(Float8 a, Float8 b, Float8 c) { return _mm256_fmadd_ps(a, b, c); }
  static Float8 fnma(Float8 a, Float8 b, Float8 c) { return _mm256_fnmadd_ps(a, b, c); }
  static void store(float* p, Float8 v) { _mm256_storeu_ps(p, v); }
  template <int N>
  static Int8 byte(Int8 v) {
    return _mm256_and_si256(_mm256_srli_epi32(v, 8 * N), _mm256_set1_epi32(255));
  }
  /// 2^(e - 128) for e of 0…255, subnormal for 0 and 1.
  static Float8 half_of_e8m0(Int8 e) {
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i subnormal =
        _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    return _mm256_castsi256_ps(_mm256_max_epi32(normal, subnormal));
  }
  /// The f16 at this byte of each row.
  static Float8 eight_f16(RowPtr rows, std::size_t offset) {
    const auto h = [&](int r) {
      std::int16_t bits;
      std::memcpy(&bits, rows[r] + offset, sizeof bits);
      return bits;
    };
    return _mm256_cvtph_ps(_mm_setr_epi16(h(0), h(1), h(2), h(3), h(4), h(5), h(6), h(7)));
  }
};

}  // namespace cria
