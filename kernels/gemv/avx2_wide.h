// Products of one token on AVX2, a register of 32 columns of one row at a time (in gemv.h: 16 columns of two rows), so that
// weights are loaded without inserts and activations of a block, rearranged once, serve eight rows. What a
// row leaves in eight int32 is added up for the eight rows together.
#pragma once

#include <immintrin.h>

#include "kernels/formats/formats.h"
#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx2.h"

namespace cria {

/// How a type is multiplied so; an object is what the blocks of eight rows have in common. Specialised in avx2_wide_k.h and
/// others beside it.
///   Block
///   kShift                    the integer sum is that many bits too large
///   Avx2Wide(rows, offset, q, sum)   of the blocks at `offset` of the rows with their 256 activations and 16 sums
///   row(p, r, sum)            fills eight int32 that add up to the integer sum of row r, whose block is at p
///   row(p, r, sum, min)       instead in types with mins: those of the mins, too (not shifted)
///   d(), dmin()               of the eight rows
template <DType type>
class Avx2Wide;

CRIA_INLINE inline __m256i load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

/// Lane r: what the int32 of v[r] add up to.
CRIA_INLINE inline __m256i sum_each(const __m256i (&v)[kRowGroup]) {
  // In both halves: a0 + a2, b0 + b2, a1 + a3, b1 + b3.
  const auto neighbours = [](__m256i a, __m256i b) CRIA_INLINE {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  };
  const auto four = [&](const __m256i* p) CRIA_INLINE {
    const __m256i ab = neighbours(p[0], p[1]), cd = neighbours(p[2], p[3]);
    return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  };
  const __m256i first = four(v), last = four(v + 4);
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                          _mm256_permute2x128_si256(first, last, 0x31));
}

/// As a Gemv of one token.
template <DType type>
class Avx2WideGemv {
  using W = Avx2Wide<type>;
  using Block = typename W::Block;
  static constexpr bool kMins = Format<type>::kTraits.has_min;

 public:
  using Lanes = RowLanes<Avx2>;

  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead, const Activations& x,
                  std::size_t token, __m256 (&acc)[1]) {
    acc[0] = _mm256_setzero_ps();
    const std::size_t n = x.cols / 256;
    const std::int8_t* const q = x.q + token * x.q_stride();
    const std::int16_t* const sum = x.sum + token * 16 * n;
    const float* const d = x.d + token * n;
    for (std::size_t b = 0; b < n; ++b)
      super_block(rows, kHeaderBytes<type> + b * sizeof(Block), ahead + b * kRowGroup * sizeof(Block),
                  q + 256 * b, sum + 16 * b, _mm256_set1_ps(d[b]), acc[0]);
  }

 private:
  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* q, const std::int16_t* sum,
                                      __m256 da, __m256& acc) {
    const W blocks(rows, offset, q, sum);
    __m256i sums[kRowGroup], mins[kRowGroup];
    for (std::size_t r = 0; r < kRowGroup; ++r) {
      const std::byte* const p = rows[r] + offset;
      fetch_far<sizeof(Block), 1>(ahead + r * sizeof(Block), 0);
      fetch_near<sizeof(Block)>(p);
      if constexpr (kMins)
        blocks.row(p, r, sums[r], mins[r]);
      else
        blocks.row(p, r, sums[r]);
    }
    const __m256i isum = _mm256_srai_epi32(sum_each(sums), W::kShift);
    acc = _mm256_fmadd_ps(_mm256_mul_ps(blocks.d(), da), _mm256_cvtepi32_ps(isum), acc);
    if constexpr (kMins)
      acc = _mm256_fnmadd_ps(_mm256_mul_ps(blocks.dmin(), da), _mm256_cvtepi32_ps(sum_each(mins)), acc);
  }
};

}  // namespace cria
