// The GEMM micro-kernel of AVX2: 8 rows × 4 tokens, products summed in int16 as far as the type's range
// allows.
#pragma once

#include <immintrin.h>

#include "kernels/gemm_panel.h"
#include "kernels/simd/isa.h"

namespace cria {

template <>
struct GemmKernel<Avx2> {
  static constexpr std::size_t kTokens = 4;
  static constexpr bool kSigned = false, kSumsInt16 = true;
  struct Session {
    explicit Session(PanelShape) {}
  };

  /// Products of scaled bytes would leave no room in an int16.
  static constexpr PanelBytes bytes(const DecodeTraits&) { return PanelBytes::Weights; }
  static constexpr int scaled_zero(const DecodeTraits&) { return 0; }

  static void transpose(__m256i (&v)[4]) {
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]);
    const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm256_unpacklo_epi64(a, c);
    v[1] = _mm256_unpackhi_epi64(a, c);
    v[2] = _mm256_unpacklo_epi64(b, d);
    v[3] = _mm256_unpackhi_epi64(b, d);
  }
  static void store(void* p, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(p), v); }
  /// Scales 2c and 2c + 1 of each row, twice each, as factors of pairs of int16; and as they are, to correct
  /// the zero.
  static void store_scales(Panel& panel, std::size_t c, std::size_t lane, __m256i pair) {
    store(panel.scale[2 * c] + lane, _mm256_blend_epi16(pair, _mm256_slli_epi32(pair, 16), 0xAA));
    store(panel.scale[2 * c + 1] + lane, _mm256_blend_epi16(_mm256_srli_epi32(pair, 16), pair, 0xAA));
    store(panel.min[c] + lane, pair);
  }
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, __m256i pair) {
    store(panel.min[c] + lane, pair);
  }

  template <PanelShape shape>
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels) {
    for (std::size_t t = 0; t < x.n_tokens; t += kTokens) {
      for (std::size_t p = 0; p < n_panels; ++p) {
        for (std::size_t lane = 0; lane < kGemmRows; lane += 8) {
          if constexpr (shape.blocks32)
            blocks32<shape>(x, t, s.panel[p], lane, s.acc[p] + t);
          else
            super256<shape>(x, t, s.panel[p], lane, s.acc[p] + t);
        }
      }
    }
  }

 private:
  using Acc = float[kGemmRows];
  using Sums = __m256i[kTokens];

  static std::size_t token(const TokenSlice& x, std::size_t t) { return t < x.n_tokens ? t : x.n_tokens - 1; }
  static __m256i splat(const void* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm256_set1_epi32(bits);
  }

  /// How many products of pairs fit in an int16.
  template <PanelShape shape>
  static constexpr std::size_t kRun = shape.max == 255 ? 1 : 32767 / (2 * 127 * shape.max);

  /// sums += scale * the products of 4n columns from panel row k on.
  template <PanelShape shape, std::size_t n>
  [[gnu::always_inline]] static void dot(const Panel& panel, std::size_t k, std::size_t lane,
                                         const std::int8_t* const (&q)[kTokens], __m256i scale, Sums& sums) {
    constexpr std::size_t kStep = kRun<shape> < n ? kRun<shape> : n;
    for (std::size_t i = k; i < k + n; i += kStep) {
      Sums pairs;
      for (std::size_t j = 0; j < kStep && i + j < k + n; ++j) {
        const __m256i w = _mm256_load_si256(reinterpret_cast<const __m256i*>(panel.q[0][i + j][lane]));
        for (std::size_t t = 0; t < kTokens; ++t) {
          const __m256i p = products<shape>(w, splat(q[t] + 4 * (i + j)));
          pairs[t] = j == 0 ? p : _mm256_add_epi16(pairs[t], p);
        }
      }
      for (std::size_t t = 0; t < kTokens; ++t)
        sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(pairs[t], scale));
    }
  }
  /// Sums of two products. Bytes of any size are signed: |w| may be 128, and 2*128*127 fits.
  template <PanelShape shape>
  static __m256i products(__m256i w, __m256i a) {
    if constexpr (shape.max == 255) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    return _mm256_maddubs_epi16(w, a);
  }

  template <PanelShape shape>
  static void super256(const TokenSlice& x, std::size_t first, const Panel& panel, std::size_t lane,
                       Acc* acc) {
    const std::int8_t* q[kTokens];
    Sums sums;
    for (std::size_t t = 0; t < kTokens; ++t) {
      q[t] = x.q + token(x, first + t) * x.q_stride;
      sums[t] = _mm256_setzero_si256();
    }
    constexpr std::size_t kScales = shape.scales == 0 ? 1 : shape.scales, kStep = kGemmCols / 4 / kScales;
    for (std::size_t j = 0; j < kScales; ++j) {
      const __m256i scale = shape.scales == 0 ? _mm256_set1_epi16(1) : load(panel.scale[j] + lane);
      dot<shape, kStep>(panel, j * kStep, lane, q, scale, sums);
    }
    for (std::size_t t = 0; t < kTokens; ++t) {
      const std::size_t at = token(x, first + t);
      const std::int16_t* const sum = x.sum + at * x.sum_stride;
      if constexpr (shape.zero != 0)
        sums[t] = _mm256_sub_epi32(sums[t], _mm256_mullo_epi32(scaled_sums<shape.scales>(panel, lane, sum),
                                                               _mm256_set1_epi32(shape.zero)));
      const __m256 d = _mm256_set1_ps(x.d[at * x.d_stride]);
      float* const out = acc[t] + lane;
      const __m256 scale = _mm256_mul_ps(_mm256_load_ps(panel.d[0] + lane), d);
      __m256 result = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t]), _mm256_load_ps(out));
      if constexpr (shape.mins != 0) {
        const __m256 min = _mm256_cvtepi32_ps(scaled_sums<shape.mins>(panel, lane, sum));
        result = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(panel.m[0] + lane), d), min, result);
      }
      _mm256_store_ps(out, result);
    }
  }
  static __m256i load(const std::int32_t* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  }

  /// Sums of activations times the n factors (scales or mins) of panel.min; n = 0: factors of 1.
  template <int n>
  static __m256i scaled_sums(const Panel& panel, std::size_t lane, const std::int16_t* sum) {
    alignas(32) std::int16_t sums[16];
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum));
    if constexpr (n == 8)
      v = _mm256_castsi128_si256(_mm_hadd_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums), v);
    __m256i total = _mm256_setzero_si256();
    for (int p = 0; p < (n == 0 ? 8 : n / 2); ++p) {
      const __m256i factors = n == 0 ? _mm256_set1_epi16(1) : load(panel.min[p] + lane);
      total = _mm256_add_epi32(total, _mm256_madd_epi16(factors, splat(sums + 2 * p)));
    }
    return total;
  }

  template <PanelShape shape>
  static void blocks32(const TokenSlice& x, std::size_t first, const Panel& panel, std::size_t lane,
                       Acc* acc) {
    std::size_t at[kTokens];
    const std::int8_t* q[kTokens];
    __m256 total[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
      at[t] = token(x, first + t);
      q[t] = x.q + at[t] * x.q_stride;
      total[t] = _mm256_load_ps(acc[t] + lane);
    }
    for (std::size_t b = 0; b < x.cols / 32; ++b) {
      Sums sums;
      for (std::size_t t = 0; t < kTokens; ++t)
        sums[t] = _mm256_set1_epi32(-shape.zero * x.sum[at[t] * x.sum_stride + b]);
      dot<shape, 8>(panel, 8 * b, lane, q, _mm256_set1_epi16(1), sums);
      for (std::size_t t = 0; t < kTokens; ++t) {
        const float d = x.d[at[t] * x.d_stride + b];
        const __m256 scale = _mm256_mul_ps(_mm256_load_ps(panel.d[b] + lane), _mm256_set1_ps(d));
        total[t] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t]), total[t]);
        if constexpr (shape.mins != 0) {
          const float sum = d * static_cast<float>(x.sum[at[t] * x.sum_stride + b]);
          total[t] = _mm256_fmadd_ps(_mm256_load_ps(panel.m[b] + lane), _mm256_set1_ps(sum), total[t]);
        }
      }
    }
    for (std::size_t t = 0; t < kTokens; ++t) _mm256_store_ps(acc[t] + lane, total[t]);
  }
};

}  // namespace cria
