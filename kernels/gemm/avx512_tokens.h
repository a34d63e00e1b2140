// The tokens' side of the GEMM micro-kernel of AVX-512: what a panel meets, laid out for broadcasts.
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "kernels/gemm/panel.h"

namespace cria {

inline constexpr std::size_t kAvx512Tokens = 6;

/// Whether one product applies the scales of two sub-blocks, which takes sums of weights and activations that
/// fit in an int16: done where an eighth of what is possible would.
constexpr bool in_pairs(PanelShape shape) {
  const int largest = std::max(shape.zero, shape.max - shape.zero);
  return shape.scales != 0 && largest * 127 * static_cast<int>(kGemmCols) / shape.scales <= 8 * 32767;
}

/// What the panels need of kTokens tokens, laid out for broadcasts.
/// Tokens beyond the end repeat the last one.
template <PanelShape shape>
struct Avx512TokenTile {
  static constexpr std::size_t kTokens = kAvx512Tokens;
  const std::int8_t* q[kTokens];
  /// q, four columns of a sub-block and of the next in turn.
  alignas(64) std::int8_t alternating[in_pairs(shape) ? kTokens : 1][kGemmCols];
  float d[kTokens][16];                         ///< Super256: [0]; else one per group
  float d_sum[kTokens][8];                      ///< groups of 32 with m: d * sum
  alignas(64) std::int32_t start[kTokens][16];  ///< -zero * (sums of the columns of each scale)
  /// Super256 with mins: two int16 sums that meet a pair of mins.
  alignas(32) std::int32_t pairs[kTokens][8];

  Avx512TokenTile(const TokenSlice& x, std::size_t first) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::size_t token = std::min(first + t, x.n_tokens - 1);
      q[t] = x.q + token * x.q_stride;
      if constexpr (in_pairs(shape)) interleave(q[t], alternating[t]);
      if constexpr (shape.groups())
        fill_groups(x, token, t);
      else
        fill_super(x.d[token * x.d_stride], x.sum + token * x.sum_stride, t);
    }
    for (std::size_t t = first + kTokens; t < std::min(first + 2 * kTokens, x.n_tokens); ++t) {
      for (std::size_t line = 0; line < kGemmCols; line += 64)
        __builtin_prefetch(x.q + t * x.q_stride + line, 0, 3);
      __builtin_prefetch(x.d + t * x.d_stride, 0, 3);
      __builtin_prefetch(x.sum + t * x.sum_stride, 0, 3);
    }
  }

 private:
  static void interleave(const std::int8_t* from, std::int8_t* to) {
    const __m512i order = shape.scales == 8
                              ? _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)
                              : _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    for (std::size_t k = 0; k < kGemmCols; k += 64)
      _mm512_store_si512(to + k, _mm512_permutexvar_epi32(order, _mm512_loadu_si512(from + k)));
  }
  void fill_super(float scale, const std::int16_t* sum, std::size_t t) {
    d[t][0] = scale;
    const __m256i sums = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum));
    const auto zero = static_cast<short>(-shape.zero);
    if constexpr (shape.zero != 0 && shape.scales == 16) {
      _mm512_store_si512(start[t], _mm512_mullo_epi32(_mm512_cvtepi16_epi32(sums), _mm512_set1_epi32(zero)));
    } else if constexpr (shape.zero != 0) {
      const __m256i halves = _mm256_madd_epi16(sums, _mm256_set1_epi16(zero));
      if constexpr (shape.scales == 8)
        _mm256_store_si256(reinterpret_cast<__m256i*>(start[t]), halves);
      else
        start[t][0] = _mm512_reduce_add_epi32(_mm512_zextsi256_si512(halves));
    }
    auto* const out = reinterpret_cast<__m256i*>(pairs[t]);
    if constexpr (shape.mins == 16) _mm256_store_si256(out, sums);
    if constexpr (shape.mins == 8) {
      const __m128i all = _mm_hadd_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
      _mm256_store_si256(out, _mm256_zextsi128_si256(all));
    }
  }
  void fill_groups(const TokenSlice& x, std::size_t token, std::size_t t) {
    if constexpr (shape.group == 16) {
      const auto all = static_cast<__mmask16>((1U << (x.cols / 16)) - 1);
      const __m256i sums = _mm256_maskz_loadu_epi16(all, x.sum + token * x.sum_stride);
      _mm512_storeu_ps(d[t], _mm512_maskz_loadu_ps(all, x.d + token * x.d_stride));
      _mm512_store_si512(start[t],
                         _mm512_mullo_epi32(_mm512_cvtepi16_epi32(sums), _mm512_set1_epi32(-shape.zero)));
      return;
    }
    const auto blocks = static_cast<__mmask8>((1U << (x.cols / 32)) - 1);
    const __m256 scale = _mm256_maskz_loadu_ps(blocks, x.d + token * x.d_stride);
    const __m256i sum = _mm256_cvtepi16_epi32(_mm_maskz_loadu_epi16(blocks, x.sum + token * x.sum_stride));
    _mm256_storeu_ps(d[t], scale);
    _mm256_store_si256(reinterpret_cast<__m256i*>(start[t]),
                       _mm256_mullo_epi32(sum, _mm256_set1_epi32(-shape.zero)));
    if constexpr (shape.mins != 0) _mm256_storeu_ps(d_sum[t], _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum)));
  }
};

}  // namespace cria
