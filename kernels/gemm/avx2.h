// The GEMM micro-kernel of AVX2: 16 rows × 4 tokens in registers. Bytes are multiplied in pairs and
// summed in int16 while the type's range allows. Types that need all eight bits are multiplied as
// int16, with half as many multiplications as products.
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "kernels/gemm/avx2_pack.h"
#include "kernels/gemm/columns256.h"
#include "kernels/gemm/panel.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <>
struct GemmKernel<Avx2> : Transpose256<Avx2> {
  static constexpr std::size_t kTokens = kAvx2Tokens,
                               kHalves = 2;  ///< halves of a tile; a half is 8 rows, one vector
  /// Tokens that pass while a panel stays in the nearest cache.
  template <PanelShape shape>
  static constexpr std::size_t kChunk = (shape.bytes == PanelBytes::Int16 ? 4 : 6) * kTokens;
  static constexpr bool kSigned = false, kSumsInt16 = true;
  struct Session {
    explicit Session(PanelShape) {}
  };

  /// Scaled bytes would leave no room in an int16, and bytes of the full range none for even two
  /// products.
  static constexpr PanelBytes bytes(const DecodeTraits&, bool full) {
    return full ? PanelBytes::Int16 : PanelBytes::Weights;
  }
  static constexpr int scaled_zero(const DecodeTraits&) { return 0; }

  /// Scales 2c and 2c + 1 of each row, twice each, as factors of pairs of
  /// int16; and as they are, to correct the zero.
  static void store_scales(Panel& panel, std::size_t c, std::size_t lane, __m256i pair) {
    store(panel.scale[2 * c] + lane, _mm256_blend_epi16(pair, _mm256_slli_epi32(pair, 16), 0xAA));
    store(panel.scale[2 * c + 1] + lane,
          _mm256_blend_epi16(_mm256_srli_epi32(pair, 16), pair, 0xAA));
    store(panel.min[c] + lane, pair);
  }
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, __m256i pair) {
    store(panel.min[c] + lane, pair);
  }

  /// Words: the two halves of four columns of sixteen rows lie side by side. From two places 8 KiB
  /// apart they came 5 % later.
  template <PanelShape shape>
  static std::uint8_t* place(Panel& panel, int half, std::size_t k, std::size_t row) {
    return const_cast<std::uint8_t*>(weights<shape>(panel, half, k, row));
  }

  template <PanelShape shape>
  static void run(const TokenSlice& x, GemmScratch& s, std::size_t n_panels, Ahead ahead) {
    if constexpr (shape.bytes == PanelBytes::Int16) {
      for (std::size_t p = 0; p < n_panels; ++p) multiply_pairs<shape>(s.panel[p], x.cols);
    }
    for (std::size_t chunk = 0; chunk < x.n_tokens; chunk += kChunk<shape>) {
      Avx2Tile<shape> tile[kChunk<shape> / kTokens];
      const std::size_t n = (std::min(kChunk<shape>, x.n_tokens - chunk) + kTokens - 1) / kTokens;
      for (std::size_t i = 0; i < n; ++i) tile[i].fill(x, chunk + i * kTokens);
      for (std::size_t p = 0; p < n_panels; ++p) {
        for (std::size_t i = 0; i < n; ++i) {
          if (p == 0) ahead.fetch();
          Acc* const acc = s.acc[p] + chunk + i * kTokens;
          for (std::size_t row = 0; row < kGemmRows; row += 8 * kHalves) {
            if constexpr (shape.groups())
              groups<shape>(tile[i], x.cols / shape.group, s.panel[p], row, acc);
            else
              super256<shape>(tile[i], s.panel[p], row, acc);
          }
        }
      }
    }
  }

 private:
  using Acc = float[kGemmRows];
  using Sums = __m256i[kTokens][kHalves];

  static __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
  static __m256i splat(const void* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm256_set1_epi32(bits);
  }
  template <PanelShape shape>
  static const std::uint8_t* weights(const Panel& panel, int half, std::size_t k, std::size_t row) {
    if constexpr (shape.bytes != PanelBytes::Int16) return panel.q[0][k][row];
    constexpr std::size_t kRows = 8 * kHalves, kBytes = kRows * 4;
    return &panel.q[0][0][0][0] + ((row / kRows * (kGemmCols / 4) + k) * 2 + half) * kBytes +
           row % kRows * 4;
  }
  /// Two vectors at once (see pin()): GCC would have multiplications and adds take turns, which the
  /// processor does slower.
  CRIA_INLINE static void pin_both(__m256i (&v)[kHalves]) {
    asm volatile("" : "+v"(v[0]), "+v"(v[1]));
  }
  /// Calls f(token, half) for every vector of a tile.
  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<kTokens>([&](int t)
                        CRIA_INLINE { unroll<kHalves>([&](int h) CRIA_INLINE { f(t, h); }); });
  }

  /// sums = or += scale * the products of 4n columns from panel row k on. No scale: 1.
  template <PanelShape shape, std::size_t n, bool first = false>
  CRIA_INLINE static void dot(const Panel& panel, std::size_t k, std::size_t row,
                              const Avx2Tile<shape>& tile, const std::int32_t* scale, Sums& sums) {
    constexpr Avx2Run kRun = Avx2Tile<shape>::kRun;
    static_assert(n % kRun.steps == 0);
    unroll<n / kRun.steps>([&](auto i) CRIA_INLINE {
      Sums pairs;
      unroll<kRun.steps>([&](auto j) CRIA_INLINE {
        const std::size_t at = k + i * kRun.steps + j;
        const __m256i w[kHalves] = {load(weights<shape>(panel, 0, at, row)),
                                    load(weights<shape>(panel, 0, at, row + 8))};
        unroll<kTokens>([&](int t) CRIA_INLINE {
          const __m256i a = splat(tile.q[t] + 4 * at);
          __m256i p[kHalves] = {_mm256_maddubs_epi16(w[0], a), _mm256_maddubs_epi16(w[1], a)};
          pin_both(p);
          if constexpr (j == 0 && kRun.starts) {
            const auto start = splat(tile.start[t] + Avx2Tile<shape>::start_at(k / kRun.steps + i));
            pairs[t][0] = pairs[t][1] = start;
          }
          unroll<kHalves>([&](int h) CRIA_INLINE {
            pairs[t][h] = j == 0 && !kRun.starts ? p[h] : _mm256_add_epi16(pairs[t][h], p[h]);
          });
          pin_both(pairs[t]);
        });
      });
      each([&](auto t, auto h) CRIA_INLINE {
        const __m256i factors = scale == nullptr ? _mm256_set1_epi16(1) : load(scale + row + 8 * h);
        const __m256i p = _mm256_madd_epi16(pairs[t][h], factors);
        sums[t][h] = first && i == 0 ? p : _mm256_add_epi32(sums[t][h], p);
      });
    });
  }

  // PanelBytes::Int16 uses Winograd's inner product (1968): for even and odd weights e, o and
  // activations a, b of four columns,
  // - e*a + o*b = (e + b)*(o + a) - e*o - a*b,
  //
  // one multiplication for two products and two adds, which Zen 3 executes at twice the rate. The
  // subtrahends depend on weights or tokens only. e + b fits: |q*scale| <= 127*127 (IQ4_KS), |b| <=
  // 127; so do two products, 2*16256^2 < 2^31. Sums may wrap: modulo 2^32 they are exact, and the
  // result fits.

  /// The sums of e*o of a group, or of all, into panel.min.
  template <PanelShape shape>
  static void multiply_pairs(Panel& panel, std::size_t cols) {
    static_assert(shape.mins == 0 && shape.scales == 0);
    constexpr std::size_t n = shape.group / 4;
    for (std::size_t row = 0; row < kGemmRows; row += 8) {
      for (std::size_t b = 0; b < cols / shape.group; ++b) {
        __m256i sum = _mm256_setzero_si256();
        for (std::size_t k = n * b; k < n * (b + 1); ++k)
          sum = _mm256_add_epi32(sum, _mm256_madd_epi16(load(weights<shape>(panel, 0, k, row)),
                                                        load(weights<shape>(panel, 1, k, row))));
        store(panel.min[b] + row, sum);
      }
    }
  }
  /// The products of group b.
  template <PanelShape shape>
  CRIA_INLINE static void dot_int16(const Panel& panel, std::size_t b, std::size_t row,
                                    const Avx2Tile<shape>& tile, Sums& sums) {
    constexpr std::size_t n = shape.group / 4, kStep = 8;
    each([&](auto t, auto h) CRIA_INLINE {
      sums[t][h] = _mm256_sub_epi32(splat(tile.pairs[t] + b), load(panel.min[b] + row + 8 * h));
    });
    for (std::size_t k = n * b; k < n * (b + 1); k += kStep) {
      unroll<kStep>([&](int j) CRIA_INLINE {
        const auto w = [&](int half, std::size_t h) CRIA_INLINE {
          return load(weights<shape>(panel, half, k + j, row + 8 * h));
        };
        const __m256i even[kHalves] = {w(0, 0), w(0, 1)}, odd[kHalves] = {w(1, 0), w(1, 1)};
        unroll<kTokens>([&](int t) CRIA_INLINE {
          const __m256i a = splat(tile.words[t][0] + 2 * (k + j)),
                        b_ = splat(tile.words[t][1] + 2 * (k + j));
          unroll<kHalves>([&](int h) CRIA_INLINE {
            const __m256i p =
                _mm256_madd_epi16(_mm256_add_epi16(even[h], b_), _mm256_add_epi16(odd[h], a));
            sums[t][h] = _mm256_add_epi32(sums[t][h], p);
            pin(sums[t][h]);
          });
        });
      });
    }
  }

  template <PanelShape shape>
  [[gnu::noinline]] static void super256(const Avx2Tile<shape>& tile, const Panel& panel,
                                         std::size_t row, Acc* acc) {
    Sums sums;
    if constexpr (shape.bytes == PanelBytes::Int16) {
      dot_int16(panel, 0, row, tile, sums);
    } else {
      constexpr std::size_t kScales = shape.scales == 0 ? 1 : shape.scales,
                            kStep = kGemmCols / 4 / kScales;
      constexpr std::size_t kAtOnce =
          kScales == 16 ? 2 : 1;  // the compiler's loop is long enough then
      each([&](auto t, auto h) CRIA_INLINE { sums[t][h] = _mm256_setzero_si256(); });
      for (std::size_t j = 0; j < kScales; j += kAtOnce) {
        unroll<kAtOnce>([&](int i) CRIA_INLINE {
          dot<shape, kStep>(panel, (j + i) * kStep, row, tile,
                            shape.scales == 0 ? nullptr : panel.scale[j + i], sums);
        });
      }
    }
    Sums correction;
    if constexpr (shape.zero != 0 && !Avx2Tile<shape>::kRun.starts) {
      weigh_sums<shape.scales>(tile, panel, row, correction);
      each([&](auto t, auto h) CRIA_INLINE {
        sums[t][h] = _mm256_sub_epi32(
            sums[t][h], _mm256_mullo_epi32(correction[t][h], _mm256_set1_epi32(shape.zero)));
      });
    }
    if constexpr (shape.mins != 0) weigh_sums<shape.mins>(tile, panel, row, correction);
    each([&](auto t, auto h) CRIA_INLINE {
      const std::size_t lane = row + 8 * h;
      const __m256 d = _mm256_broadcast_ss(tile.d[t]);
      const __m256 scale = _mm256_mul_ps(_mm256_load_ps(panel.d[0] + lane), d);
      __m256 result =
          _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t][h]), _mm256_load_ps(acc[t] + lane));
      if constexpr (shape.mins != 0)
        result = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(panel.m[0] + lane), d),
                                  _mm256_cvtepi32_ps(correction[t][h]), result);
      _mm256_store_ps(acc[t] + lane, result);
    });
  }

  /// Sums of activations times the n factors (scales or mins) of panel.min; n = 0: factors of 1.
  template <int n, PanelShape shape>
  CRIA_INLINE static void weigh_sums(const Avx2Tile<shape>& tile, const Panel& panel,
                                     std::size_t row, Sums& out) {
    unroll<(n == 0 ? 8 : n / 2)>([&](int p) CRIA_INLINE {
      __m256i factors[kHalves];
      unroll<kHalves>([&](int h) CRIA_INLINE {
        factors[h] = n == 0 ? _mm256_set1_epi16(1) : load(panel.min[p] + row + 8 * h);
      });
      each([&](auto t, auto h) CRIA_INLINE {
        const __m256i m = _mm256_madd_epi16(factors[h], splat(tile.sums[t] + 2 * p));
        out[t][h] = p == 0 ? m : _mm256_add_epi32(out[t][h], m);
        pin(out[t][h]);
      });
    });
  }

  template <PanelShape shape>
  [[gnu::noinline]] static void groups(const Avx2Tile<shape>& tile, std::size_t n,
                                       const Panel& panel, std::size_t row, Acc* acc) {
    __m256 total[kTokens][kHalves];
    each([&](auto t, auto h) CRIA_INLINE { total[t][h] = _mm256_load_ps(acc[t] + row + 8 * h); });
    for (std::size_t b = 0; b < n; ++b) {
      Sums sums;
      if constexpr (shape.bytes == PanelBytes::Int16) {
        dot_int16(panel, b, row, tile, sums);
      } else {
        constexpr bool kCorrect = shape.zero != 0 && !Avx2Tile<shape>::kRun.starts;
        if constexpr (kCorrect)
          each([&](auto t, auto h) CRIA_INLINE { sums[t][h] = splat(&tile.start[t][b]); });
        dot<shape, shape.group / 4, !kCorrect>(panel, shape.group / 4 * b, row, tile, nullptr,
                                               sums);
      }
      each([&](auto t, auto h) CRIA_INLINE {
        const float d = tile.d[t][b];
        const __m256 scale =
            _mm256_mul_ps(_mm256_load_ps(panel.d[b] + row + 8 * h), _mm256_set1_ps(d));
        total[t][h] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t][h]), total[t][h]);
        if constexpr (shape.mins != 0) {
          total[t][h] = _mm256_fmadd_ps(_mm256_load_ps(panel.m[b] + row + 8 * h),
                                        _mm256_set1_ps(tile.d_sum[t][b]), total[t][h]);
        }
      });
    }
    each([&](auto t, auto h) CRIA_INLINE { _mm256_store_ps(acc[t] + row + 8 * h, total[t][h]); });
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
