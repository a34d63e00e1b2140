// Packing for the GEMM of AVX2: activations into tiles, weights eight rows at a time into a panel.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "kernels/gemm/panel.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

inline constexpr std::size_t kAvx2Tokens = 4;  ///< per tile

/// Runs of byte products that are summed in int16.
struct Avx2Run {
  std::size_t steps;  ///< steps of four columns: the largest power of two that fits
  /// Sums begin with the negated contribution of the bytes' zero point. They may wrap on the way,
  /// but end as the sums of the weights themselves, with half the range and no correction. Only if
  /// that makes runs longer.
  bool starts;

  static constexpr std::size_t kMaxStarts = 8;  ///< steps of a run with starts

  static constexpr Avx2Run of(PanelShape shape) {
    const std::size_t n =
        shape.groups() ? shape.group / 4 : kGemmCols / 4 / std::max(shape.scales, 1);
    const auto fit = [&](int max) {
      return std::min<std::size_t>(n,
                                   std::bit_floor(static_cast<unsigned>(32767 / (2 * 127 * max))));
    };
    const std::size_t biased = fit(shape.max);
    if (shape.zero == 0) return {biased, false};
    const std::size_t centred = fit(std::max(shape.zero, shape.max - shape.zero));
    if (centred <= biased || centred > kMaxStarts) return {biased, false};
    return {centred, true};
  }
};

/// A tile of tokens of a slice; the last token is repeated to fill it.
template <PanelShape shape>
struct alignas(32) Avx2Tile {
  static constexpr bool kInt16 = shape.bytes == PanelBytes::Int16;
  static constexpr Avx2Run kRun = kInt16 ? Avx2Run{0, false} : Avx2Run::of(shape);

  const std::int8_t* q[kAvx2Tokens];
  const float* d[kAvx2Tokens];
  const std::int16_t* sum[kAvx2Tokens];
  /// Words: the even columns, then the odd ones, and the sum of the products of neighbours,
  /// negated, of each group, or [0] of all.
  std::int16_t words[kAvx2Tokens][2][kInt16 ? kGemmCols / 2 : 16];
  std::int32_t pairs[kAvx2Tokens][8];
  std::int16_t sums[kAvx2Tokens][16];  ///< as the factors of panel.min want them
  /// Starts of run i at start_at(i), two int16; without starts: the negated contribution of the
  /// zero point, by group.
  std::int32_t start[kAvx2Tokens][kRun.starts ? 32 : 16];
  float d_sum[kAvx2Tokens][8];  ///< groups with m: d * sum

  void fill(const TokenSlice& x, std::size_t first) {
    for (std::size_t t = 0; t < kAvx2Tokens; ++t) {
      const std::size_t token = std::min(first + t, x.n_tokens - 1);
      q[t] = x.q + token * x.q_stride;
      d[t] = x.d + token * x.d_stride;
      sum[t] = x.sum + token * x.sum_stride;
      if constexpr (kInt16) widen(t, x.cols);
      if constexpr (shape.mins != 0 || (shape.zero != 0 && !kRun.starts))
        if constexpr (!shape.groups()) copy_sums(t);
      if constexpr (kRun.starts) make_starts(t, x.cols);
      if constexpr (shape.groups() && !kInt16) make_sums(t, x.cols / shape.group);
    }
  }
  static constexpr std::size_t start_at(std::size_t i) {
    if (kRun.steps == 2) return i / 8 * 8 + i / 2 % 2 * 4 + i / 4 % 2 * 2 + i % 2;
    if (kRun.steps == 4) return i / 8 * 8 + i % 2 * 4 + i / 2 % 4;
    return i / 4 * 8 + i % 4;
  }

 private:
  static __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
  static void store(void* p, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(p), v); }
  static __m256i negate32(__m256i v) { return _mm256_sub_epi32(_mm256_setzero_si256(), v); }

  void widen(std::size_t t, std::size_t n) {
    const std::int8_t* const from = q[t];
    __m256i p[8];
    unroll<8>([&](auto i) CRIA_INLINE {
      p[i] = _mm256_setzero_si256();
      if (shape.groups() && 32 * i >= n) return;
      const __m256i v = load(from + 32 * i), odd = _mm256_srai_epi16(v, 8),
                    even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
      store(words[t][0] + 16 * i, even);
      store(words[t][1] + 16 * i, odd);
      p[i] = _mm256_madd_epi16(even, odd);
    });
    const __m256i a = sum_lanes(p[0], p[1], p[2], p[3]), b = sum_lanes(p[4], p[5], p[6], p[7]);
    const __m256i s = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                       _mm256_permute2x128_si256(a, b, 0x31));
    store(pairs[t], negate32(s));
    if constexpr (!shape.groups()) {
      const std::int32_t* const eight = pairs[t];
      pairs[t][0] =
          eight[0] + eight[1] + eight[2] + eight[3] + eight[4] + eight[5] + eight[6] + eight[7];
    }
  }
  /// The sums of four vectors in every 16-byte lane.
  static __m256i sum_lanes(__m256i a, __m256i b, __m256i c, __m256i d) {
    const __m256i x = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    const __m256i y = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    return _mm256_add_epi32(_mm256_unpacklo_epi64(x, y), _mm256_unpackhi_epi64(x, y));
  }
  void copy_sums(std::size_t t) {
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum[t]));
    if constexpr (std::max(shape.scales, shape.mins) == 8)
      v = _mm256_castsi128_si256(
          _mm_hadd_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    store(sums[t], v);
  }
  void make_sums(std::size_t t, std::size_t n) {
    for (std::size_t b = 0; b < n; ++b) {
      if constexpr (shape.zero != 0 && !kRun.starts) start[t][b] = -shape.zero * sum[t][b];
      if constexpr (shape.mins != 0) d_sum[t][b] = d[t][b] * static_cast<float>(sum[t][b]);
    }
  }
  /// Makes the starts of n columns. Every int16 of a sum meets two columns of four, so it has its
  /// own start.
  void make_starts(std::size_t t, std::size_t n) {
    static_assert(kRun.steps == 2 || kRun.steps == 4 || kRun.steps == 8);
    const __m256i zero = _mm256_set1_epi8(shape.zero), none = _mm256_setzero_si256();
    const auto added = [&](std::size_t i) {
      return shape.groups() && 32 * i >= n ? none : _mm256_maddubs_epi16(zero, load(q[t] + 32 * i));
    };
    if constexpr (kRun.steps == 2) {
      for (std::size_t i = 0; i < 4; ++i) {
        const __m256 a = _mm256_castsi256_ps(added(2 * i)),
                     b = _mm256_castsi256_ps(added(2 * i + 1));
        const __m256i first = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
        const __m256i second = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
        store(start[t] + 8 * i, _mm256_sub_epi16(none, _mm256_add_epi16(first, second)));
      }
    } else {
      for (std::size_t i = 0; i < 2; ++i) {
        const __m256i v0 = added(4 * i), v1 = added(4 * i + 1), v2 = added(4 * i + 2),
                      v3 = added(4 * i + 3);
        const __m256i a =
            _mm256_add_epi16(_mm256_unpacklo_epi32(v0, v1), _mm256_unpackhi_epi32(v0, v1));
        const __m256i b =
            _mm256_add_epi16(_mm256_unpacklo_epi32(v2, v3), _mm256_unpackhi_epi32(v2, v3));
        __m256i s = _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        if constexpr (kRun.steps == 8) s = _mm256_add_epi16(s, _mm256_permute2x128_si256(s, s, 1));
        store(start[t] + 8 * i, _mm256_sub_epi16(none, s));
      }
    }
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
