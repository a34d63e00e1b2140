// The GEMM micro-kernel of AVX-VNNI: 16 rows (two vectors) × 6 tokens, one dpbusd per 32 products.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/gemm/columns256.h"
#include "kernels/gemm/panel.h"
#include "kernels/simd/avx2.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <>
struct GemmKernel<AvxVnni> : Transpose256<AvxVnni> {
  static constexpr std::size_t kTokens = 6,
                               kHalves = 2;  ///< halves of a tile; a half is 8 rows, one vector
  static constexpr bool kSigned = false, kSumsInt16 = false;
  struct Session {
    explicit Session(PanelShape) {}
  };

  static constexpr PanelBytes bytes(const DecodeTraits& t, bool) {
    const Range r = scaled_range(t);
    if (r.max - r.min <= 255) return PanelBytes::Scaled;
    return t.odd && r.max - r.min <= 511 ? PanelBytes::Halved : PanelBytes::Weights;
  }
  static constexpr int scaled_zero(const DecodeTraits& t) { return -scaled_range(t).min; }

  /// Scales 2c and 2c + 1 of each row, as int32.
  static void store_scales(Panel& panel, std::size_t c, std::size_t lane, __m256i pair) {
    store(panel.scale[2 * c] + lane, _mm256_srai_epi32(_mm256_slli_epi32(pair, 16), 16));
    store(panel.scale[2 * c + 1] + lane, _mm256_srai_epi32(pair, 16));
  }
  /// Pair c of the n mins of each row.
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, __m256i pair) {
    store(panel.min[c] + lane, pair);
  }

  template <PanelShape shape>
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead ahead) {
    for (std::size_t t = 0; t < x.n_tokens; t += kTokens) {
      const Tile<shape> tile(x, t);
      ahead.fetch();
      for (std::size_t p = 0; p < n_panels; ++p) {
        for (std::size_t row = 0; row < kGemmRows; row += 8 * kHalves) {
          if constexpr (shape.groups())
            groups(tile, x.cols / shape.group, s.panel[p], row, s.acc[p] + t);
          else
            super256(tile, s.panel[p], row, s.acc[p] + t);
        }
      }
    }
  }

 private:
  using Dot = Dot256<AvxVnni>;
  using Acc = float[kGemmRows];
  using Sums = __m256i[kTokens][kHalves];

  /// Operands of kTokens tokens, packed for broadcasts; missing tokens repeat the last one.
  template <PanelShape shape>
  struct Tile {
    const std::int8_t* q[kTokens];
    float d[kTokens][16];             ///< Super256: [0]; else one per group
    float d_sum[kTokens][8];          ///< groups of 32 with m: d * sum
    std::int32_t start[kTokens][16];  ///< -zero * (the sum of the columns of each scale)
    std::int32_t pairs[kTokens]
                      [8];  ///< Super256 with mins: two int16 sums that meet a pair of mins

    Tile(const TokenSlice& x, std::size_t first) {
      for (std::size_t t = 0; t < kTokens; ++t) {
        const std::size_t token = std::min(first + t, x.n_tokens - 1);
        const float* const scale = x.d + token * x.d_stride;
        const std::int16_t* const sum = x.sum + token * x.sum_stride;
        q[t] = x.q + token * x.q_stride;
        if constexpr (shape.groups())
          fill_groups(t, x.cols / shape.group, scale, sum);
        else
          fill_super(t, *scale, sum);
      }
    }

   private:
    void fill_groups(std::size_t t, std::size_t n, const float* scale, const std::int16_t* sum) {
      for (std::size_t b = 0; b < n; ++b) {
        d[t][b] = scale[b];
        start[t][b] = -shape.zero * sum[b];
        if constexpr (shape.mins != 0) d_sum[t][b] = scale[b] * static_cast<float>(sum[b]);
      }
    }
    void fill_super(std::size_t t, float scale, const std::int16_t* sum) {
      d[t][0] = scale;
      std::int16_t of_32[8];
      for (std::size_t j = 0; j < 8; ++j)
        of_32[j] = static_cast<std::int16_t>(sum[2 * j] + sum[2 * j + 1]);
      if constexpr (shape.scales == 16) {
        for (std::size_t j = 0; j < 16; ++j) start[t][j] = -shape.zero * sum[j];
      } else {
        for (std::size_t j = 0; j < 8; ++j) start[t][j] = -shape.zero * of_32[j];
      }
      if constexpr (shape.scales == 0) {
        for (std::size_t j = 1; j < 8; ++j) start[t][0] += start[t][j];
      }
      if constexpr (shape.mins == 16) std::memcpy(pairs[t], sum, 16 * sizeof *sum);
      if constexpr (shape.mins == 8) std::memcpy(pairs[t], of_32, sizeof of_32);
    }
  };

  static __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
  static __m256i splat(const void* p) {
    std::int32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return _mm256_set1_epi32(bits);
  }
  /// Calls f(token, half) for every vector of a tile.
  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<kTokens>([&](int t)
                        CRIA_INLINE { unroll<kHalves>([&](int h) CRIA_INLINE { f(t, h); }); });
  }

  /// sums = the start of scale j plus the products of 4n columns from panel row k on.
  template <std::size_t n, PanelShape shape>
  CRIA_INLINE static void dot(const Tile<shape>& tile, std::size_t j, const Panel& panel,
                              std::size_t k, std::size_t row, Sums& sums) {
    each([&](auto t, auto h) CRIA_INLINE {
      sums[t][h] = shape.zero != 0 && shape.bytes != PanelBytes::Halved ? splat(&tile.start[t][j])
                                                                        : _mm256_setzero_si256();
    });
    for (std::size_t i = k; i < k + n; i += 4) {
      unroll<4>([&](int step) CRIA_INLINE {
        const __m256i w[kHalves] = {load(panel.q[0][i + step][row]),
                                    load(panel.q[0][i + step][row + 8])};
        unroll<kTokens>([&](int t) CRIA_INLINE {
          const __m256i a = splat(tile.q[t] + 4 * (i + step));
          unroll<kHalves>([&](int h) CRIA_INLINE {
            sums[t][h] = Dot::bytes(sums[t][h], w[h], a);
            pin(sums[t][h]);
          });
        });
      });
    }
  }

  template <PanelShape shape>
  static void super256(const Tile<shape>& tile, const Panel& panel, std::size_t row, Acc* acc) {
    Sums block;
    if constexpr (shape.scales == 0) {
      dot<kGemmCols / 4>(tile, 0, panel, 0, row, block);
      if constexpr (shape.bytes == PanelBytes::Halved) {
        each([&](auto t, auto h) CRIA_INLINE {
          block[t][h] = _mm256_add_epi32(_mm256_add_epi32(block[t][h], block[t][h]),
                                         splat(&tile.start[t][0]));
        });
      }
    } else {
      constexpr std::size_t kStep = kGemmCols / 4 / shape.scales;
      each([&](auto t, auto h) CRIA_INLINE { block[t][h] = _mm256_setzero_si256(); });
      for (std::size_t j = 0; j < shape.scales; ++j) {
        Sums sums;
        dot<kStep>(tile, j, panel, j * kStep, row, sums);
        const __m256i scale[kHalves] = {load(panel.scale[j] + row), load(panel.scale[j] + row + 8)};
        each([&](auto t, auto h) CRIA_INLINE {
          block[t][h] = _mm256_add_epi32(block[t][h], _mm256_mullo_epi32(sums[t][h], scale[h]));
        });
      }
    }
    add_block(tile, panel, row, block, acc);
  }

  /// acc = fma(d_w*d_a, isum, acc), then the mins: one more product, of pairs of int16.
  template <PanelShape shape>
  CRIA_INLINE static void add_block(const Tile<shape>& tile, const Panel& panel, std::size_t row,
                                    const Sums& block, Acc* acc) {
    Sums mins;
    each([&](auto t, auto h) CRIA_INLINE { mins[t][h] = _mm256_setzero_si256(); });
    for (std::size_t p = 0; p < shape.mins / 2; ++p) {
      each([&](auto t, auto h) CRIA_INLINE {
        mins[t][h] =
            Dot::pairs(mins[t][h], load(panel.min[p] + row + 8 * h), splat(&tile.pairs[t][p]));
      });
    }
    each([&](auto t, auto h) CRIA_INLINE {
      const std::size_t lane = row + 8 * h;
      const __m256 da = _mm256_set1_ps(tile.d[t][0]);
      const __m256 scale = _mm256_mul_ps(_mm256_load_ps(panel.d[0] + lane), da);
      __m256 sum =
          _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(block[t][h]), _mm256_load_ps(acc[t] + lane));
      if constexpr (shape.mins != 0)
        sum = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(panel.m[0] + lane), da),
                               _mm256_cvtepi32_ps(mins[t][h]), sum);
      _mm256_store_ps(acc[t] + lane, sum);
    });
  }

  template <PanelShape shape>
  static void groups(const Tile<shape>& tile, std::size_t n, const Panel& panel, std::size_t row,
                     Acc* acc) {
    constexpr std::size_t kRows = shape.group / 4;  // panel rows in a group
    for (std::size_t b = 0; b < n; ++b) {
      Sums sums;
      dot<kRows>(tile, b, panel, kRows * b, row, sums);
      each([&](auto t, auto h) CRIA_INLINE {
        const std::size_t lane = row + 8 * h;
        const __m256 scale =
            _mm256_mul_ps(_mm256_load_ps(panel.d[b] + lane), _mm256_set1_ps(tile.d[t][b]));
        __m256 total =
            _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t][h]), _mm256_load_ps(acc[t] + lane));
        if constexpr (shape.mins != 0)
          total = _mm256_fmadd_ps(_mm256_load_ps(panel.m[b] + lane),
                                  _mm256_set1_ps(tile.d_sum[t][b]), total);
        _mm256_store_ps(acc[t] + lane, total);
      });
    }
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
