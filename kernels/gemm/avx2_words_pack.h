// The weights' side of products of words on AVX2 (avx2_words.h): eight rows at a time into a panel
// of sixteen.
#pragma once

#include <immintrin.h>

#include "kernels/formats/formats.h"
#include "kernels/gemm/columns256.h"
#include "kernels/gemm/words_tokens.h"
#include "kernels/lanes/lanes.h"
#include "kernels/simd/avx2.h"

namespace cria {

/// 256 columns of sixteen rows.
struct alignas(64) WordsPanel {
  std::int32_t words[kGemmCols / 4][2][kWordsRows];  ///< of four columns the even ones' words of
                                                     ///< each row, then the odd ones'
  std::int32_t own[8][kWordsRows];  ///< sums of products of neighbours: per group of 32 columns, or
                                    ///< [0] of all
  float d[8][kWordsRows];           ///< likewise
};

/// Decodes eight rows into a panel. Words are weights, or weights times their integer scales.
template <DType type>
class WordsPacker {
  using V = RowLanes<Avx2>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  using Rows = const std::byte* [kRowGroup];
  static constexpr bool kScaled = W::kSuper;
  static_assert(W::kFull && W::kZero == 0 && (!kScaled || W::kScales == 8));

 public:
  static constexpr std::size_t kBytes = W::kBytes, kBlockValues = Format<type>::kBlockValues;
  static constexpr bool kGroups = !W::kSuper;

  /// n blocks from `offset` on into the panel's rows [lane, lane + 8). far: as much, fetched
  /// meanwhile.
  CRIA_FLATTEN static void pack(const Rows& rows, std::size_t offset, std::size_t n,
                                const std::byte* far, std::size_t lane, WordsPanel& panel) {
    for (const std::byte* row : rows)  // what is packed next
      for (std::size_t at = 0; at < n * kBytes; at += 64)
        __builtin_prefetch(row + offset + n * kBytes + at, 0, 3);
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n; ++b, offset += kBytes, far += kRowGroup * kBytes) {
      const __m256i own = pack_block(rows, offset, b * kBlockValues / 4, far, lane, panel);
      Transpose256<Avx2>::store(panel.own[b] + lane, own);
      V::store(panel.d[b] + lane, W::d(rows, offset));
    }
  }

 private:
  /// Returns each row's sum of products of neighbours.
  CRIA_INLINE static __m256i pack_block(const Rows& rows, std::size_t offset, std::size_t first,
                                        const std::byte* far, std::size_t lane, WordsPanel& panel) {
    Vec scale[8];
    if constexpr (kScaled) scales(rows, offset, scale);
    Vec own = V::zero();
    const auto put = [&](Vec w, std::size_t j, std::size_t k) CRIA_INLINE {
      // Multiplications instead of shifts: there are shuffles enough for the same pipes.
      const Vec factor = kScaled ? scale[j] : V::splat16(256);
      const Vec even = _mm256_mulhi_epi16(V::template shl16<8>(w), factor),
                odd = _mm256_mulhi_epi16(kScaled ? V::bit_and(w, V::splat16(-256)) : w, factor);
      own = V::madd16(own, even, odd);
      pin(own);
      Transpose256<Avx2>::store(panel.words[k][0] + lane, even);
      Transpose256<Avx2>::store(panel.words[k][1] + lane, odd);
    };
    decode_columns<Avx2, type>(rows, offset, far,
                               [&](std::size_t k, Vec w) CRIA_INLINE { put(w, k / 8, first + k); });
    return own;
  }
  /// Each scale of the eight rows times 256, twice.
  CRIA_INLINE static void scales(const Rows& rows, std::size_t offset, Vec (&out)[8]) {
    Vec scale[1][4];
    words_of_rows<Avx2>(
        [&](std::size_t k, Vec(&s)[1]) CRIA_INLINE { W::scales(rows + k, offset, s); }, scale);
    for (int c = 0; c < 4; ++c) {
      const Vec v = V::template shl16<8>(scale[0][c]);
      out[2 * c] = _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xAA);
      out[2 * c + 1] = _mm256_blend_epi16(_mm256_srli_epi32(v, 16), v, 0xAA);
    }
  }
};

}  // namespace cria
