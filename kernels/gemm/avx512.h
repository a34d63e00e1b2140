// The GEMM micro-kernel of AVX-512 VNNI: 32 rows (two vectors) × 6 tokens, one dpbusd per 64
// products.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/avx512_tokens.h"
#include "kernels/gemm/panel.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// True if one product applies the scales of two sub-blocks. This needs sums in int16; it pays if
/// a sixth of the possible range fits.
constexpr bool in_pairs(PanelShape shape) {
  const int largest = std::max(shape.zero, shape.max - shape.zero);
  return shape.scales != 0 &&
         largest * 127 * static_cast<int>(kGemmCols) / shape.scales <= 6 * 32767;
}

template <>
struct GemmKernel<Avx512> {
  static constexpr std::size_t kTokens = 6;
  static constexpr bool kSigned = false, kSumsInt16 = true, kHalfWeights = true;
  struct Session {
    explicit Session(PanelShape) {}
  };

  static constexpr PanelBytes bytes(const DecodeTraits& t, bool) {
    const Range r = scaled_range(t);
    if (r.max - r.min <= 255) return PanelBytes::Scaled;
    return t.odd && r.max - r.min <= 511 ? PanelBytes::Halved : PanelBytes::Weights;
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
  /// Scales 2c and 2c + 1 of each row, two int16.
  static void store_scales(Panel& panel, std::size_t c, std::size_t lane, __m512i pair) {
    store(panel.scale[c] + lane, pair);
  }
  /// Sixteen rows' weights, a vector for every four columns. In pairs, the same columns of two
  /// sub-blocks alternate: rows 0 1 4 5 … in the first's place, 2 3 6 7 … in the second's.
  template <PanelShape shape, std::size_t n>
  static void arrange(__m512i (&q)[n][4]) {
    if constexpr (in_pairs(shape)) {
      constexpr std::size_t kStep = kGemmCols / 4 / shape.scales;
      for (std::size_t k = 0; k < kGemmCols / 4; k += 2 * kStep) {
        for (std::size_t i = k; i < k + kStep; ++i) {
          __m512i &a = q[i / 4][i % 4], &b = q[(i + kStep) / 4][i % 4];
          const __m512i low = _mm512_unpacklo_epi32(a, b);
          b = _mm512_unpackhi_epi32(a, b);
          a = low;
        }
      }
    }
  }

  /// Sub-blocks that share a product have four of their columns in turn.
  static constexpr ColumnOrder order_of(PanelShape shape) {
    if (!in_pairs(shape)) return ColumnOrder::Given;
    return shape.scales == 8 ? ColumnOrder::Pairs32 : ColumnOrder::Pairs16;
  }
  template <PanelShape shape>
  using Tokens = PackedTokens<order_of(shape), kTokens>;

  template <PanelShape shape>
  static void run(const typename Tokens<shape>::Slice& x, GemmScratch& s, std::size_t n_panels,
                  Ahead ahead) {
    Starts start[kTokens];
    for (std::size_t t = 0; t < x.n_tokens; t += kTokens) {
      const PackedToken* const token = x.token + t;
      for (std::size_t i = 0; shape.zero != 0 && i < kTokens; ++i)
        fill_starts<shape>(token[i], start[i]);
      const auto* const next = reinterpret_cast<const std::byte*>(token + kTokens);
      fetch<kTileLines - kGemmPanels * kPanelLines>(next + kGemmPanels * kPanelLines * kLine);
      ahead.fetch();
      for (std::size_t p = 0; p < n_panels; ++p) {
        const Tile tile{token, start, next + p * kPanelLines * kLine};
        if constexpr (shape.groups())
          groups<shape>(tile, x.cols / shape.group, s.panel[p], s.acc[p] + t);
        else
          super256<shape>(tile, s.panel[p], s.acc[p] + t);
      }
    }
  }

 private:
  using Acc = float[kGemmRows];
  using Sums = __m512i[kTokens][2];
  /// Operands of a panel, and the prefetched part of the next tile (which may lie behind the last
  /// one).
  struct Tile {
    const PackedToken* x;
    const Starts* start;
    const std::byte* next;
  };
  static constexpr std::size_t kLine = 64, kTileLines = kTokens * sizeof(PackedToken) / kLine,
                               kPanelLines = 16;  // a few at a time: a burst stalls
  static_assert(kTileLines >= kGemmPanels * kPanelLines);

  template <std::size_t lines>
  [[gnu::always_inline]] static void fetch(const std::byte* from) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < lines; ++i) __builtin_prefetch(from + i * kLine, 0, 3);
  }
  /// Part `part` of `parts` of what a panel fetches.
  template <std::size_t parts>
  [[gnu::always_inline]] static void fetch_part(const Tile& tile, std::size_t part) {
    constexpr std::size_t kLines = kPanelLines / parts;
    fetch<kLines>(tile.next + part * kLines * kLine);
  }

  static __m512i splat(std::int32_t bits) { return _mm512_set1_epi32(bits); }

  template <PanelShape shape>
  static __m512i splat_pair(const PackedToken& token, int p) {
    std::int32_t pair;
    __builtin_memcpy(&pair, sums_of_mins<shape>(token) + 2 * p, sizeof pair);
    return splat(pair);
  }

  /// Keeps Clang from loading what follows before the sums are made: it would spill them.
  [[gnu::always_inline]] static void load_in_order([[maybe_unused]] Sums& sums,
                                                   [[maybe_unused]] const PackedToken*& x) {
#ifdef __clang__
    asm("" : "+v"(sums[0][0]), "+r"(x));
#endif
  }

  /// sums += the products of 4n columns from panel row k on. Written out: in a loop GCC 12 moves
  /// every sum to another register and back, which takes more of the front end than the products
  /// themselves.
  template <std::size_t n>
  [[gnu::always_inline]] static void dot(const Panel& panel, std::size_t k, const Tile& tile,
                                         Sums& sums) {
    const PackedToken* x = tile.x;
#pragma GCC unroll 8
    for (std::size_t i = k; i < k + n; ++i) {
      load_in_order(sums, x);
      const __m512i w0 = _mm512_load_si512(panel.q[0][i][0]),
                    w1 = _mm512_load_si512(panel.q[0][i][16]);
#pragma GCC unroll 8
      for (std::size_t t = 0; t < kTokens; ++t) {
        std::int32_t four;
        __builtin_memcpy(&four, x[t].q + 4 * i, sizeof four);
        const __m512i a = splat(four);
        sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], w0, a);
        sums[t][1] = _mm512_dpbusd_epi32(sums[t][1], w1, a);
      }
    }
  }
  [[gnu::always_inline]] static void all_columns(const Panel& panel, const Tile& tile, Sums& sums) {
    for (std::size_t i = 0; i < 8; ++i) {
      fetch_part<8>(tile, i);
      dot<kGemmCols / 4 / 8>(panel, 8 * i, tile, sums);
    }
  }
  template <PanelShape shape>
  [[gnu::always_inline]] static void begin(const Tile& tile, std::size_t j, Sums& sums) {
    for (std::size_t t = 0; t < kTokens; ++t)
      sums[t][0] = sums[t][1] = shape.zero != 0 ? splat(tile.start[t][j]) : _mm512_setzero_si512();
  }

  // Not inlined: GCC would keep broadcasts of both panels in memory instead of sums in registers.
  template <PanelShape shape>
  [[gnu::noinline]] static void super256(const Tile& tile, const Panel& panel, Acc* acc) {
    Sums block;
    if constexpr (shape.bytes == PanelBytes::Halved) {
      for (auto& b : block) b[0] = b[1] = _mm512_setzero_si512();
      all_columns(panel, tile, block);
      for (std::size_t t = 0; t < kTokens; ++t)
        for (auto& b : block[t])
          b = _mm512_add_epi32(_mm512_add_epi32(b, b), splat(tile.start[t][0]));
    } else if constexpr (shape.scales == 0) {
      begin<shape>(tile, 0, block);
      all_columns(panel, tile, block);
    } else if constexpr (in_pairs(shape)) {
      if (!paired_scales<shape, false>(tile, panel, block))
        return int32_sums<shape>(tile, panel, acc);
    } else {
      single_scales<shape>(tile, panel, block);
    }
    add_block<shape>(tile, panel, block, acc);
  }
  template <PanelShape shape>
  [[gnu::noinline, gnu::cold]] static void int32_sums(const Tile& tile, const Panel& panel,
                                                      Acc* acc) {
    Sums block;
    paired_scales<shape, true>(tile, panel, block);
    add_block<shape>(tile, panel, block, acc);
  }

  template <PanelShape shape>
  [[gnu::always_inline]] static void single_scales(const Tile& tile, const Panel& panel,
                                                   Sums& block) {
    constexpr std::size_t kStep = kGemmCols / 4 / shape.scales;
    for (auto& b : block) b[0] = b[1] = _mm512_setzero_si512();
    for (int j = 0; j < shape.scales; ++j) {
      Sums sums;
      fetch_part<shape.scales>(tile, j);
      begin<shape>(tile, j, sums);
      dot<kStep>(panel, j * kStep, tile, sums);
      for (int h = 0; h < 2; ++h) {
        // The scale in the high half of every lane.
        const auto* const pair = reinterpret_cast<const std::byte*>(panel.scale[j / 2] + 16 * h);
        const __m512i scale = _mm512_srai_epi32(_mm512_loadu_si512(pair + 2 * (j % 2) - 2), 16);
        for (std::size_t t = 0; t < kTokens; ++t)
          block[t][h] = _mm512_add_epi32(block[t][h], _mm512_mullo_epi32(sums[t][h], scale));
      }
    }
  }

  /// The same for two sub-blocks at a time, which alternate in the lanes (see arrange): their sums
  /// are packed to int16, and one product applies both scales. False if a sum did not fit; Wide:
  /// any does.
  template <PanelShape shape, bool Wide>
  [[gnu::always_inline]] static bool paired_scales(const Tile& tile, const Panel& panel,
                                                   Sums& block) {
    constexpr std::size_t kStep = kGemmCols / 4 / shape.scales;
    __m512i most = _mm512_setzero_si512(), least = most;
    for (auto& b : block) b[0] = b[1] = _mm512_setzero_si512();
    for (std::size_t j = 0; j < shape.scales; j += 2) {
      unroll<2>([&](int h) CRIA_INLINE {
        const PackedToken* x = tile.x;
        const std::int32_t* start = tile.start[0].at + j;
        fetch_part<shape.scales>(tile, j + h);
        asm(""
            : "+r"(x), "+r"(start));  // else GCC keeps the broadcasts for the other rows, in memory
        Sums sums;
        unroll<kTokens>([&](int t) CRIA_INLINE {
          sums[t][0] = sums[t][1] =
              shape.zero != 0 ? splat_two(start + 16 * t) : _mm512_setzero_si512();
        });
        dot_pairs<kStep>(panel, j * kStep, h, x, sums);
        const __m512i scales = _mm512_load_si512(panel.scale[j / 2] + 16 * h);
        unroll<kTokens>([&](int t) CRIA_INLINE {
          if constexpr (Wide) {
            block[t][h] = _mm512_add_epi32(block[t][h], int32_products(sums[t], scales));
          } else {
            const __m512i pair = _mm512_packs_epi32(sums[t][0], sums[t][1]);
            most = _mm512_max_epi16(most, pair);
            least = _mm512_min_epi16(least, pair);
            block[t][h] = _mm512_dpwssd_epi32(block[t][h], pair, scales);
          }
        });
      });
    }
    return (_mm512_cmpeq_epi16_mask(most, _mm512_set1_epi16(32767)) |
            _mm512_cmpeq_epi16_mask(least, _mm512_set1_epi16(-32768))) == 0;
  }
  static __m512i int32_products(const __m512i (&sums)[2], __m512i scales) {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i s0 = _mm512_srai_epi32(_mm512_unpacklo_epi16(zero, scales), 16);
    const __m512i s1 = _mm512_srai_epi32(_mm512_unpackhi_epi16(zero, scales), 16);
    const __m512 a = _mm512_castsi512_ps(_mm512_mullo_epi32(sums[0], s0));
    const __m512 b = _mm512_castsi512_ps(_mm512_mullo_epi32(sums[1], s1));
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xDD)));
  }
  /// sums += the products of 4n columns each of two sub-blocks, of rows 16h … 16h + 15.
  template <std::size_t n>
  [[gnu::always_inline]] static void dot_pairs(const Panel& panel, std::size_t k, std::size_t h,
                                               const PackedToken* x, Sums& sums) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < n; ++i) {
      load_in_order(sums, x);
      const __m512i w0 = _mm512_load_si512(panel.q[0][k + i][16 * h]),
                    w1 = _mm512_load_si512(panel.q[0][k + i + n][16 * h]);
#pragma GCC unroll 8
      for (std::size_t t = 0; t < kTokens; ++t) {
        const __m512i a = splat_two(x[t].q + 4 * k + 8 * i);
        sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], w0, a);
        sums[t][1] = _mm512_dpbusd_epi32(sums[t][1], w1, a);
      }
    }
  }
  static __m512i splat_two(const void* p) {
    std::int64_t two;
    __builtin_memcpy(&two, p, sizeof two);
    return _mm512_set1_epi64(two);
  }

  /// acc = fma(d_w*d_a, isum, acc), then the mins: one more product, of pairs of int16.
  template <PanelShape shape>
  [[gnu::always_inline]] static void add_block(const Tile& tile, const Panel& panel,
                                               const Sums& block, Acc* acc) {
    Sums mins;
    if constexpr (shape.mins != 0) {
      for (auto& m : mins) m[0] = m[1] = _mm512_setzero_si512();
      for (int p = 0; p < shape.mins / 2; ++p) {
        const __m512i w0 = _mm512_load_si512(panel.min[p]),
                      w1 = _mm512_load_si512(panel.min[p] + 16);
        for (std::size_t t = 0; t < kTokens; ++t) {
          mins[t][0] = _mm512_dpwssd_epi32(mins[t][0], w0, splat_pair<shape>(tile.x[t], p));
          mins[t][1] = _mm512_dpwssd_epi32(mins[t][1], w1, splat_pair<shape>(tile.x[t], p));
        }
      }
    }
    for (std::size_t h = 0; h < 2; ++h) {
      const __m512 d = _mm512_load_ps(panel.d[0] + 16 * h), m = _mm512_load_ps(panel.m[0] + 16 * h);
      for (std::size_t t = 0; t < kTokens; ++t) {
        float* const to = acc[t] + 16 * h;
        const __m512 da = _mm512_set1_ps(tile.x[t].d[0]);
        __m512 sum = _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(block[t][h]),
                                     _mm512_load_ps(to));
        if constexpr (shape.mins != 0)
          sum = _mm512_fnmadd_ps(_mm512_mul_ps(m, da), _mm512_cvtepi32_ps(mins[t][h]), sum);
        _mm512_store_ps(to, sum);
      }
    }
  }

  template <PanelShape shape>
  [[gnu::noinline]] static void groups(const Tile& tile, std::size_t n, const Panel& panel,
                                       Acc* acc) {
    constexpr std::size_t kRows = shape.group / 4;  // panel rows in a group
    __m512 total[kTokens][2];
    for (std::size_t t = 0; t < kTokens; ++t)
      for (std::size_t h = 0; h < 2; ++h) total[t][h] = _mm512_load_ps(acc[t] + 16 * h);
    for (std::size_t b = 0; b < n; ++b) {
      Sums sums;
      fetch_part<kGemmCols / shape.group>(tile, b);
      begin<shape>(tile, b, sums);
      dot<kRows>(panel, kRows * b, tile, sums);
      for (std::size_t h = 0; h < 2; ++h) {
        const __m512 d = _mm512_load_ps(panel.d[b] + 16 * h);
        // Powers of two are added to exponents: Zen multiplies in the pipes of the products.
        const __m512 exponent = shape.powers_of_two ? _mm512_getexp_ps(d) : d;
        for (std::size_t t = 0; t < kTokens; ++t) {
          const __m512 da = _mm512_set1_ps(tile.x[t].d[b]),
                       scale = shape.powers_of_two ? _mm512_scalef_ps(da, exponent)
                                                   : _mm512_mul_ps(d, da);
          total[t][h] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums[t][h]), total[t][h]);
          if constexpr (shape.mins != 0)
            total[t][h] = _mm512_fmadd_ps(_mm512_load_ps(panel.m[b] + 16 * h),
                                          _mm512_set1_ps(tile.x[t].d_sum[b]), total[t][h]);
        }
      }
    }
    for (std::size_t t = 0; t < kTokens; ++t)
      for (std::size_t h = 0; h < 2; ++h) _mm512_store_ps(acc[t] + 16 * h, total[t][h]);
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
