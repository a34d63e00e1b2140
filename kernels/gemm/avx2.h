// The GEMM micro-kernel of AVX2: 16 rows × 3 tokens in registers. Bytes are multiplied in pairs and summed in
// int16 as long as the type's range allows; types that need all eight bits are multiplied as int16.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "kernels/gemm/panel.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

template <>
struct GemmKernel<Avx2> {
  static constexpr std::size_t kTokens = 3, kHalves = 2;  ///< of a tile; a half is 8 rows, one vector
  /// Tokens that pass while a panel stays in the nearest cache.
  static constexpr std::size_t kChunk = 8 * kTokens;
  static constexpr bool kSigned = false, kSumsInt16 = true;
  struct Session {
    explicit Session(PanelShape) {}
  };

  /// Scaled bytes would leave no room in an int16, and bytes of the full range none for even two products.
  static constexpr PanelBytes bytes(const DecodeTraits&, bool full) {
    return full ? PanelBytes::Words : PanelBytes::Weights;
  }
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
  /// Scales 2c and 2c + 1 of each row, twice each, as factors of pairs of
  /// int16; and as they are, to correct the zero.
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
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead ahead) {
    for (std::size_t chunk = 0; chunk < x.n_tokens; chunk += kChunk) {
      Words words[kChunk / kTokens];
      const std::size_t end = std::min(chunk + kChunk, x.n_tokens);
      for (std::size_t p = 0; p < n_panels; ++p) {
        for (std::size_t t = chunk; t < end; t += kTokens) {
          const Tile tile(x, t, shape.bytes == PanelBytes::Words ? &words[(t - chunk) / kTokens] : nullptr,
                          p == 0);
          if (p == 0) ahead.fetch();
          for (std::size_t row = 0; row < kGemmRows; row += 8 * kHalves) {
            if constexpr (shape.groups())
              groups<shape>(x, tile, s.panel[p], row, s.acc[p] + t);
            else
              super256<shape>(x, tile, s.panel[p], row, s.acc[p] + t);
          }
        }
      }
    }
  }

 private:
  using Acc = float[kGemmRows];
  using Sums = __m256i[kTokens][kHalves];
  /// Activations as int16: the even columns, then the odd ones.
  struct alignas(32) Words {
    std::int16_t at[kTokens][2][kGemmCols / 2];
  };
  static constexpr std::size_t kOddWords = sizeof(Words::at[0][0]);

  /// The activations of three tokens; the last token is repeated to fill a tile.
  struct Tile {
    std::size_t token[kTokens];
    const std::int8_t* q[kTokens];
    Tile(const TokenSlice& x, std::size_t first, Words* words, bool fill) {
      for (std::size_t t = 0; t < kTokens; ++t) {
        token[t] = std::min(first + t, x.n_tokens - 1);
        q[t] = x.q + token[t] * x.q_stride;
        if (words == nullptr) continue;
        if (fill) widen(q[t], x.cols, words->at[t]);
        q[t] = reinterpret_cast<const std::int8_t*>(words->at[t]);
      }
    }
  };
  static void widen(const std::int8_t* q, std::size_t n, std::int16_t (&words)[2][kGemmCols / 2]) {
    for (std::size_t i = 0; i < n; i += 32) {
      const __m256i v = load(q + i);
      store(words[0] + i / 2, _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8));
      store(words[1] + i / 2, _mm256_srai_epi16(v, 8));
    }
  }

  static __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
  static __m256i splat(const void* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm256_set1_epi32(bits);
  }
  /// Calls f(token, half) for every vector of a tile.
  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<kTokens>([&](auto t) CRIA_INLINE { unroll<kHalves>([&](auto h) CRIA_INLINE { f(t, h); }); });
  }
  CRIA_INLINE static void clear(Sums& sums) {
    each([&](auto t, auto h) CRIA_INLINE { sums[t][h] = _mm256_setzero_si256(); });
  }

  /// How many sums of two products fit in an int16, as a power of two.
  template <PanelShape shape>
  static constexpr std::size_t kRun = std::bit_floor(32767U / (2 * 127 * shape.max));

  /// sums += scale * the products of 4n columns from panel row k on.
  template <PanelShape shape, std::size_t n>
  CRIA_INLINE static void dot(const Panel& panel, std::size_t k, std::size_t row, const Tile& tile,
                              const __m256i (&scale)[kHalves], Sums& sums) {
    constexpr std::size_t kStep = std::min(kRun<shape>, n);
    static_assert(n % kStep == 0);
    for (std::size_t i = k; i < k + n; i += kStep) {
      Sums pairs;
      unroll<kStep>([&](auto j) CRIA_INLINE {
        const __m256i w[kHalves] = {load(panel.q[0][i + j][row]), load(panel.q[0][i + j][row + 8])};
        each([&](auto t, auto h) CRIA_INLINE {
          const __m256i p = _mm256_maddubs_epi16(w[h], splat(tile.q[t] + 4 * (i + j)));
          pairs[t][h] = j == 0 ? p : _mm256_add_epi16(pairs[t][h], p);
          pin(pairs[t][h]);
        });
      });
      each([&](auto t, auto h) CRIA_INLINE {
        sums[t][h] = _mm256_add_epi32(sums[t][h], _mm256_madd_epi16(pairs[t][h], scale[h]));
      });
    }
  }
  /// sums += the products of 4n columns, weights and activations as int16.
  template <std::size_t n>
  CRIA_INLINE static void dot_words(const Panel& panel, std::size_t k, std::size_t row, const Tile& tile,
                                    Sums& sums) {
    constexpr std::size_t kStep = 8;
    for (std::size_t i = k; i < k + n; i += kStep) {
      unroll<2 * kStep>([&](auto j) CRIA_INLINE {
        constexpr std::size_t kOdd = j % 2, kAt = j / 2;
        const __m256i w[kHalves] = {load(panel.q[kOdd][i + kAt][row]), load(panel.q[kOdd][i + kAt][row + 8])};
        each([&](auto t, auto h) CRIA_INLINE {
          const __m256i p = _mm256_madd_epi16(w[h], splat(tile.q[t] + kOdd * kOddWords + 4 * (i + kAt)));
          sums[t][h] = _mm256_add_epi32(sums[t][h], p);
          pin(sums[t][h]);
        });
      });
    }
  }

  template <PanelShape shape>
  static void super256(const TokenSlice& x, const Tile& tile, const Panel& panel, std::size_t row, Acc* acc) {
    Sums sums;
    clear(sums);
    if constexpr (shape.bytes == PanelBytes::Words) {
      dot_words<kGemmCols / 4>(panel, 0, row, tile, sums);
    } else {
      constexpr std::size_t kScales = shape.scales == 0 ? 1 : shape.scales, kStep = kGemmCols / 4 / kScales;
      for (std::size_t j = 0; j < kScales; ++j) {
        __m256i scale[kHalves];
        unroll<kHalves>([&](auto h) CRIA_INLINE {
          scale[h] = shape.scales == 0 ? _mm256_set1_epi16(1) : load(panel.scale[j] + row + 8 * h);
        });
        dot<shape, kStep>(panel, j * kStep, row, tile, scale, sums);
      }
    }
    Sums correction;
    if constexpr (shape.zero != 0) {
      weigh_sums<shape.scales>(x, tile, panel, row, correction);
      each([&](auto t, auto h) CRIA_INLINE {
        sums[t][h] =
            _mm256_sub_epi32(sums[t][h], _mm256_mullo_epi32(correction[t][h], _mm256_set1_epi32(shape.zero)));
      });
    }
    if constexpr (shape.mins != 0) weigh_sums<shape.mins>(x, tile, panel, row, correction);
    each([&](auto t, auto h) CRIA_INLINE {
      const std::size_t lane = row + 8 * h;
      const __m256 d = _mm256_set1_ps(x.d[tile.token[t] * x.d_stride]);
      const __m256 scale = _mm256_mul_ps(_mm256_load_ps(panel.d[0] + lane), d);
      __m256 result = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t][h]), _mm256_load_ps(acc[t] + lane));
      if constexpr (shape.mins != 0)
        result = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(panel.m[0] + lane), d),
                                  _mm256_cvtepi32_ps(correction[t][h]), result);
      _mm256_store_ps(acc[t] + lane, result);
    });
  }

  /// Sums of activations times the n factors (scales or mins) of panel.min; n = 0: factors of 1.
  template <int n>
  CRIA_INLINE static void weigh_sums(const TokenSlice& x, const Tile& tile, const Panel& panel,
                                     std::size_t row, Sums& out) {
    alignas(32) std::int16_t sums[kTokens][16];
    for (std::size_t t = 0; t < kTokens; ++t) {
      __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x.sum + tile.token[t] * x.sum_stride));
      if constexpr (n == 8)
        v = _mm256_castsi128_si256(_mm_hadd_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
      store(sums[t], v);
    }
    clear(out);
    for (int p = 0; p < (n == 0 ? 8 : n / 2); ++p) {
      __m256i factors[kHalves];
      unroll<kHalves>([&](auto h) CRIA_INLINE {
        factors[h] = n == 0 ? _mm256_set1_epi16(1) : load(panel.min[p] + row + 8 * h);
      });
      each([&](auto t, auto h) CRIA_INLINE {
        out[t][h] = _mm256_add_epi32(out[t][h], _mm256_madd_epi16(factors[h], splat(sums[t] + 2 * p)));
      });
    }
  }

  template <PanelShape shape>
  static void groups(const TokenSlice& x, const Tile& tile, const Panel& panel, std::size_t row, Acc* acc) {
    constexpr std::size_t kRows = shape.group / 4;  // of the panel in a group
    __m256 total[kTokens][kHalves];
    each([&](auto t, auto h) CRIA_INLINE { total[t][h] = _mm256_load_ps(acc[t] + row + 8 * h); });
    for (std::size_t b = 0; b < x.cols / shape.group; ++b) {
      Sums sums;
      if constexpr (shape.bytes == PanelBytes::Words) {
        clear(sums);
        dot_words<kRows>(panel, kRows * b, row, tile, sums);
      } else {
        each([&](auto t, auto h) CRIA_INLINE {
          sums[t][h] = _mm256_set1_epi32(-shape.zero * x.sum[tile.token[t] * x.sum_stride + b]);
        });
        const __m256i one = _mm256_set1_epi16(1), ones[kHalves] = {one, one};
        dot<shape, kRows>(panel, kRows * b, row, tile, ones, sums);
      }
      each([&](auto t, auto h) CRIA_INLINE {
        const float d = x.d[tile.token[t] * x.d_stride + b];
        const __m256 scale = _mm256_mul_ps(_mm256_load_ps(panel.d[b] + row + 8 * h), _mm256_set1_ps(d));
        total[t][h] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t][h]), total[t][h]);
        if constexpr (shape.mins != 0) {
          const float sum = d * static_cast<float>(x.sum[tile.token[t] * x.sum_stride + b]);
          total[t][h] =
              _mm256_fmadd_ps(_mm256_load_ps(panel.m[b] + row + 8 * h), _mm256_set1_ps(sum), total[t][h]);
        }
      });
    }
    each([&](auto t, auto h) CRIA_INLINE { _mm256_store_ps(acc[t] + row + 8 * h, total[t][h]); });
  }
};

}  // namespace cria
