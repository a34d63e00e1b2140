// Products of one token on AVX2, a register of 32 columns of one row at a time (in gemv.h: 16
// columns of two rows), so that weights are loaded without inserts and activations of a block,
// rearranged once, serve eight rows. What a row leaves in eight int32 is added up for the eight
// rows together.
#pragma once

#include <immintrin.h>

#include <array>

#include "kernels/formats/formats.h"
#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx2.h"

namespace cria {

/// How a type is multiplied so; an object is what the blocks of eight rows have in common.
/// Specialised in avx2_wide_k.h and others beside it.
///   Block
///   kShift                    the integer sum is that many bits too large
///   Avx2Wide(rows, offset, q, sum)   of the blocks at `offset` of the rows with their 256
///   activations and 16 sums row(p, r, sum)            fills eight int32 that add up to the integer
///   sum of row r, whose block is at p d(), dmin()               of the eight rows more() optional:
///   what the integer sums of the eight rows lack kNeighbours               optional: never read as
///   streams, by which it loses on Zen 3
/// and in types with mins one of
///   row(p, r, sum, min)       that, and the same of the mins, not shifted
///   mins()                    their integer sums
template <DType type>
class Avx2Wide;

CRIA_INLINE inline __m256i load256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
/// Sixteen bytes in both halves, always from memory: GCC would rather put together what another
/// load has left in a register, which takes a shuffle.
CRIA_INLINE inline __m256i both_halves(const void* p) {
  asm("" : "+r"(p));
  return RowLanes<Avx2>::same(p);
}

/// The same of 32 bytes: it would load them again for every use, and they often lie across two
/// cache lines.
CRIA_INLINE inline __m256i load_once256(const void* p) {
  __m256i v = load256(p);
  pin(v);
  return v;
}

/// The scales of the eight rows' blocks, which the rows then load.
template <DType type>
class Avx2WideScales {
  using Lanes = LaneType<RowLanes<Avx2>, type>;
  static constexpr int kVecs = Lanes::kScales / 8;

 public:
  CRIA_INLINE Avx2WideScales(const std::byte* const* rows, std::size_t offset) {
    unroll<4>([&](auto k) CRIA_INLINE {
      __m256i two_rows[kVecs];
      Lanes::scales(rows + k, offset, two_rows);
      for (int i = 0; i < kVecs; ++i) {
        scales_[k][i] = _mm256_castsi256_si128(two_rows[i]);
        scales_[k + 4][i] = _mm256_extracti128_si256(two_rows[i], 1);
      }
    });
    keep_in_memory(scales_);
  }
  /// Eight int16 of row r in both halves, from 8i on.
  [[nodiscard]] CRIA_INLINE __m256i of(std::size_t r, int i = 0) const {
    return both_halves(&scales_[r][i]);
  }

 private:
  __m128i scales_[kRowGroup][kVecs];
};
/// For a lookup in eight int16: 2i in the first half, 2i + 1 in the second.
alignas(32) inline constexpr auto kPairsOfWords = [] {
  std::array<std::array<std::uint8_t, 32>, 4> from{};
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < 32; ++k)
      from[i][k] = static_cast<std::uint8_t>(4 * i + k / 16 * 2 + k % 2);
  return from;
}();

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
template <DType type, Reading reading>
class Avx2WideGemv {
  using W = Avx2Wide<type>;
  using Block = typename W::Block;
  static constexpr bool kMins = Format<type>::kTraits.has_min;
  static constexpr bool kRowMins = kMins && !requires(const W& w) { w.mins(); };

 public:
  using Lanes = RowLanes<Avx2>;
  static constexpr Reading kReading = reading;

  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead,
                  const Activations& x, std::size_t token, __m256 (&acc)[1]) {
    acc[0] = _mm256_setzero_ps();
    const std::size_t n = x.cols / 256;
    const std::int8_t* const q = x.q + token * x.q_stride();
    const std::int16_t* const sum = x.sum + token * 16 * n;
    const float* const d = x.d + token * n;
    for (std::size_t b = 0; b < n; ++b)
      super_block(rows, kHeaderBytes<type> + b * sizeof(Block),
                  ahead + b * kRowGroup * sizeof(Block), q + 256 * b, sum + 16 * b,
                  _mm256_set1_ps(d[b]), acc[0]);
  }

 private:
  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* q,
                                      const std::int16_t* sum, __m256 da, __m256& acc) {
    const W blocks(rows, offset, q, sum);
    __m256i sums[kRowGroup], mins[kRowGroup];
    const auto row = [&](std::size_t r) CRIA_INLINE {
      const std::byte* const p = rows[r] + offset;
      if constexpr (kReading == Reading::InOrder) {
        fetch_far<sizeof(Block), 1>(ahead + r * sizeof(Block), 0);
        fetch_near<sizeof(Block)>(p);
      }
      if constexpr (kRowMins)
        blocks.row(p, r, sums[r], mins[r]);
      else
        blocks.row(p, r, sums[r]);
    };
    // Not unrolled: eight copies of a codebook's code overflow the cache of decoded instructions,
    // which two threads share.
    for (std::size_t r = 0; r < kRowGroup; ++r) row(r);
    __m256i isum = _mm256_srai_epi32(sum_each(sums), W::kShift);
    if constexpr (requires { blocks.more(); }) isum = _mm256_add_epi32(isum, blocks.more());
    acc = _mm256_fmadd_ps(_mm256_mul_ps(blocks.d(), da), _mm256_cvtepi32_ps(isum), acc);
    if constexpr (kMins) {
      __m256i imin;
      if constexpr (kRowMins)
        imin = sum_each(mins);
      else
        imin = blocks.mins();
      acc = _mm256_fnmadd_ps(_mm256_mul_ps(blocks.dmin(), da), _mm256_cvtepi32_ps(imin), acc);
    }
  }
};

}  // namespace cria
