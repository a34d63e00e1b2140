// Q8_0 times one token on AVX-512: two blocks of a row in a register, so that a row is loaded by
// two loads and one insert (in lanes: four and three), and the sums and scales of sixteen blocks
// are dealt with together.
#pragma once

#include "kernels/gemv/wide_walk.h"
#include "kernels/lanes/blocks32.h"

namespace cria {

template <Reading reading>
class Q8Gemv : public BlockSteps<Q8Gemv<reading>, DType::Q8_0, 2, reading> {
  friend class BlockSteps<Q8Gemv, DType::Q8_0, 2, reading>;
  static constexpr std::size_t kBytes = sizeof(BlockQ8_0), kStepBytes = 2 * kBytes;

  CRIA_INLINE static void step(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                               const std::byte* ahead, const std::int8_t* q,
                               const std::int16_t* /*sum*/, const float* d, __m256& acc) {
    const __m512i x = _mm512_loadu_si512(q), bias = _mm512_set1_epi8(-128),
                  zero = _mm512_setzero_si512();
    const __m512i start = _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, bias, x));
    __m512i pairs[4], scales = zero;
    unroll<4>([&](auto i) CRIA_INLINE {
      const auto row = [&](auto r) CRIA_INLINE {
        const std::byte* const p = rows[r] + offset;
        fetch_stream<kStepBytes, reading>(p);
        scales = _mm512_mask_broadcastd_epi32(scales, __mmask16(1U << r), _mm_loadu_si32(p));
        scales =
            _mm512_mask_broadcastd_epi32(scales, __mmask16(256U << r), _mm_loadu_si32(p + kBytes));
        const __m512i w =
            _mm512_inserti64x4(_mm512_castsi256_si512(weights(p)), weights(p + kBytes), 1);
        return _mm512_dpbusd_epi32(start, _mm512_xor_si512(w, bias), x);
      };
      if constexpr (reading == Reading::InOrder) fetch_far<kRowGroup * kStepBytes, 4>(ahead, i);
      const __m512i first = row(std::integral_constant<int, 2 * i>{});
      pairs[i] = add_neighbours(first, row(std::integral_constant<int, 2 * i + 1>{}));
      pin(pairs[i]);
    });
    // Lanes 0 and 1 are of the first block, 2 and 3 of the second: of rows 0 to 3, then of 4 to 7.
    const __m512i low = add_pairs(pairs[0], pairs[1]), high = add_pairs(pairs[2], pairs[3]);
    const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    const __m512 sums = _mm512_cvtepi32_ps(_mm512_add_epi32(
        _mm512_permutex2var_epi64(low, even, high), _mm512_permutex2var_epi64(low, odd, high)));
    const __m512 da = _mm512_insertf32x8(_mm512_set1_ps(d[0]), _mm256_set1_ps(d[1]), 1);
    const __m512 scale = _mm512_mul_ps(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(scales)), da);
    acc = _mm256_fmadd_ps(_mm512_castps512_ps256(scale), _mm512_castps512_ps256(sums), acc);
    acc = _mm256_fmadd_ps(_mm512_extractf32x8_ps(scale, 1), _mm512_extractf32x8_ps(sums, 1), acc);
  }
  /// Those of the block at p.
  CRIA_INLINE static __m256i weights(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + offsetof(BlockQ8_0, q)));
  }
};

template <>
struct OneToken<Avx512, DType::Q8_0> {
  template <Reading reading>
  using Reads = Q8Gemv<reading>;
  using Type = Reads<Reading::InOrder>;
};

}  // namespace cria
