// The GEMM micro-kernel of AVX-512 VNNI: 32 rows (two vectors) × 6 tokens, one dpbusd per 64 products.
#pragma once

#include <immintrin.h>

#include "kernels/gemm_panel.h"
#include "kernels/simd/isa.h"

namespace cria {

template <>
struct GemmKernel<Avx512> {
  static constexpr std::size_t kTokens = 6;
  static constexpr bool kSigned = false, kSumsInt16 = false;
  struct Session {
    explicit Session(PanelShape) {}
  };

  static constexpr PanelBytes bytes(const DecodeTraits& t, bool) {
    const Range r = scaled_range(t);
    return r.max - r.min <= 255 ? PanelBytes::Scaled : PanelBytes::Weights;
  }
  static constexpr int scaled_zero(const DecodeTraits& t) { return -scaled_range(t).min; }

  static void transpose(__m512i (&v)[4]) {
    const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi64(a, c);
    v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d);
    v[3] = _mm512_unpackhi_epi64(b, d);
  }
  static void store(void* p, __m512i v) { _mm512_store_si512(p, v); }
  /// Pair c of the n mins of each row.
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, __m512i pair) {
    store(panel.min[c] + lane, pair);
  }
  /// Scales 2c and 2c + 1 of each row.
  static void store_scales(Panel& panel, std::size_t c, std::size_t lane, __m512i pair) {
    store(panel.scale[2 * c] + lane, _mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16));
    store(panel.scale[2 * c + 1] + lane, _mm512_srai_epi32(pair, 16));
  }

  template <PanelShape shape>
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels) {
    for (std::size_t t = 0; t < x.n_tokens; t += kTokens) {
      for (std::size_t p = 0; p < n_panels; ++p) {
        if constexpr (shape.blocks32)
          blocks32<shape>(x, t, s.panel[p], s.acc[p] + t);
        else
          super256<shape>(x, t, s.panel[p], s.acc[p] + t);
      }
    }
  }

  /// acc = fma(d_w*d_a, isum, acc) for one token and half h of the rows, then the mins.
  template <PanelShape shape>
  [[gnu::always_inline]] static void add_sum(const TokenSlice& x, std::size_t token, const Panel& panel,
                                             int h, __m512i isum, float* acc) {
    const __m512 d = _mm512_set1_ps(x.d[token * x.d_stride]);
    const __m512 scale = _mm512_mul_ps(_mm512_load_ps(panel.d[0] + 16 * h), d);
    __m512 sum = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(isum), _mm512_load_ps(acc + 16 * h));
    if constexpr (shape.mins != 0) {
      const __m512i min = min_products<shape>(panel, h, x.sum + token * x.sum_stride);
      sum = _mm512_fnmadd_ps(_mm512_mul_ps(_mm512_load_ps(panel.m[0] + 16 * h), d), _mm512_cvtepi32_ps(min),
                             sum);
    }
    _mm512_store_ps(acc + 16 * h, sum);
  }

 private:
  using Acc = float[kGemmRows];
  using Sums = __m512i[kTokens][2];

  /// Token i of a tile; a tile that reaches beyond the end reads its last token again.
  static std::size_t token(const TokenSlice& x, std::size_t t) { return t < x.n_tokens ? t : x.n_tokens - 1; }
  static __m512i splat(const void* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm512_set1_epi32(bits);
  }

  /// sums += the products of 4n columns from panel row k on.
  [[gnu::always_inline]] static void dot(const Panel& panel, std::size_t k, std::size_t n,
                                         const std::int8_t* const (&q)[kTokens], Sums& sums) {
    for (std::size_t i = k; i < k + n; ++i) {
      const __m512i w0 = _mm512_load_si512(panel.q[0][i][0]), w1 = _mm512_load_si512(panel.q[0][i][16]);
      for (std::size_t t = 0; t < kTokens; ++t) {
        const __m512i a = splat(q[t] + 4 * i);
        sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], w0, a);
        sums[t][1] = _mm512_dpbusd_epi32(sums[t][1], w1, a);
      }
    }
  }

  /// -zero * (sums of the columns of each scale), where the products of the unsigned bytes start from.
  template <PanelShape shape>
  static void starts(const std::int16_t* sum, std::int32_t (&out)[16]) {
    const __m256i sums = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum));
    const auto zero = static_cast<short>(-shape.zero);
    if constexpr (shape.scales == 16) {
      _mm512_store_si512(out, _mm512_mullo_epi32(_mm512_cvtepi16_epi32(sums), _mm512_set1_epi32(zero)));
    } else {
      const __m256i pairs = _mm256_madd_epi16(sums, _mm256_set1_epi16(zero));
      if constexpr (shape.scales == 8)
        _mm256_store_si256(reinterpret_cast<__m256i*>(out), pairs);
      else
        out[0] = _mm512_reduce_add_epi32(_mm512_zextsi256_si512(pairs));
    }
  }

  template <PanelShape shape>
  static void super256(const TokenSlice& x, std::size_t first, const Panel& panel, Acc* acc) {
    alignas(64) std::int32_t start[kTokens][16];
    const std::int8_t* q[kTokens];
    for (std::size_t t = 0; t < kTokens; ++t) {
      q[t] = x.q + token(x, first + t) * x.q_stride;
      if constexpr (shape.zero != 0) starts<shape>(x.sum + token(x, first + t) * x.sum_stride, start[t]);
    }
    const auto begin = [&](Sums& sums, int j) {
      for (std::size_t t = 0; t < kTokens; ++t)
        sums[t][0] = sums[t][1] = shape.zero != 0 ? _mm512_set1_epi32(start[t][j]) : _mm512_setzero_si512();
    };
    Sums block;
    if constexpr (shape.scales == 0) {
      begin(block, 0);
      dot(panel, 0, kGemmCols / 4, q, block);
    } else {
      for (auto& b : block) b[0] = b[1] = _mm512_setzero_si512();
      constexpr std::size_t kStep = kGemmCols / 4 / shape.scales;
      for (int j = 0; j < shape.scales; ++j) {
        Sums sums;
        begin(sums, j);
        dot(panel, j * kStep, kStep, q, sums);
        for (int h = 0; h < 2; ++h) {
          const __m512i scale = _mm512_load_si512(panel.scale[j] + 16 * h);
          for (std::size_t t = 0; t < kTokens; ++t)
            block[t][h] = _mm512_add_epi32(block[t][h], _mm512_mullo_epi32(sums[t][h], scale));
        }
      }
    }
    add_block<shape>(x, first, panel, block, acc);
  }

  template <PanelShape shape>
  static void add_block(const TokenSlice& x, std::size_t first, const Panel& panel, const Sums& block,
                        Acc* acc) {
    for (std::size_t t = 0; t < kTokens; ++t) {
      for (int h = 0; h < 2; ++h) add_sum<shape>(x, token(x, first + t), panel, h, block[t][h], acc[t]);
    }
  }

  template <PanelShape shape>
  static __m512i min_products(const Panel& panel, int h, const std::int16_t* sum) {
    alignas(32) std::int16_t sums[16];
    __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum));
    if constexpr (shape.mins == 8)
      v = _mm256_castsi128_si256(_mm_hadd_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums), v);
    __m512i min = _mm512_setzero_si512();
    for (int p = 0; p < shape.mins / 2; ++p)
      min = _mm512_dpwssd_epi32(min, _mm512_load_si512(panel.min[p] + 16 * h), splat(sums + 2 * p));
    return min;
  }

  template <PanelShape shape>
  static void blocks32(const TokenSlice& x, std::size_t first, const Panel& panel, Acc* acc) {
    const std::size_t n_blocks = x.cols / 32;
    std::size_t at[kTokens];
    const std::int8_t* q[kTokens];
    __m512 total[kTokens][2];
    for (std::size_t t = 0; t < kTokens; ++t) {
      at[t] = token(x, first + t);
      q[t] = x.q + at[t] * x.q_stride;
      for (int h = 0; h < 2; ++h) total[t][h] = _mm512_load_ps(acc[t] + 16 * h);
    }
    for (std::size_t b = 0; b < n_blocks; ++b) {
      Sums sums;
      for (std::size_t t = 0; t < kTokens; ++t) {
        const std::int32_t start = -shape.zero * x.sum[at[t] * x.sum_stride + b];
        sums[t][0] = sums[t][1] = shape.zero != 0 ? _mm512_set1_epi32(start) : _mm512_setzero_si512();
      }
      dot(panel, 8 * b, 8, q, sums);
      for (std::size_t t = 0; t < kTokens; ++t) {
        const float d = x.d[at[t] * x.d_stride + b];
        for (int h = 0; h < 2; ++h) {
          const __m512 scale = _mm512_mul_ps(_mm512_load_ps(panel.d[b] + 16 * h), _mm512_set1_ps(d));
          total[t][h] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums[t][h]), total[t][h]);
          if constexpr (shape.mins != 0) {
            const float sum = d * static_cast<float>(x.sum[at[t] * x.sum_stride + b]);
            total[t][h] =
                _mm512_fmadd_ps(_mm512_load_ps(panel.m[b] + 16 * h), _mm512_set1_ps(sum), total[t][h]);
          }
        }
      }
    }
    for (std::size_t t = 0; t < kTokens; ++t)
      for (int h = 0; h < 2; ++h) _mm512_store_ps(acc[t] + 16 * h, total[t][h]);
  }
};

}  // namespace cria
