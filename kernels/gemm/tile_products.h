// The micro-kernels of products of few tokens on AVX2: 16 rows × T tokens, T exact. Bytes are multiplied in pairs and
// summed in int16. Where weights have a zero, the sums begin with what takes it away: they may wrap around on their
// way, for what they end as is small.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "kernels/gemm/token_tiles.h"
#include "kernels/rows/activations.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

/// Two int16, each of which may have wrapped around.
constexpr std::int32_t two_words(int low, int high) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(low) & 0xFFFF) |
                                   static_cast<std::uint32_t>(high) << 16);
}

/// -zero times the sums of columns 4i, 4i + 1 and of columns 4i + 2, 4i + 3, as the two int16 of a sum take them.
template <int columns, int zero>
CRIA_INLINE inline std::int32_t start_of_sums(const std::int8_t* q) {
  __m128i sum = _mm_setzero_si128();
#pragma GCC unroll 16
  for (int i = 0; i < columns; i += 16) {
    const auto* const p = reinterpret_cast<const __m128i*>(q + i);
    const __m128i v = columns == 8 ? _mm_loadl_epi64(p) : _mm_loadu_si128(p);
    sum = _mm_add_epi16(sum, _mm_maddubs_epi16(_mm_set1_epi8(1), v));
  }
  sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(_mm_mullo_epi16(sum, _mm_set1_epi16(-zero)));
}

/// Place t of a tile: `cols` columns from k on of `token`.
template <FewRowsShape shape>
void lay_out_tile_token(const Activations& x, std::size_t token, std::size_t k, std::size_t cols,
                        std::size_t t, TokenTile& out) {
  constexpr int kColumns = 4 * shape.in_one_run();
  const std::int8_t* const q = x.q + token * x.q_stride() + k;
  if (cols == kGemmCols)
    std::memcpy(out.q[t], q, kGemmCols);
  else
    std::memcpy(out.q[t], q, cols);
  if constexpr (shape.centred)
    for (std::size_t i = 0; i < cols / kColumns; ++i)
      out.start[i][t] = start_of_sums<kColumns, shape.zero>(q + kColumns * i);
  const std::size_t n_groups = cols / shape.group, group = (token * x.cols + k) / shape.group;
  for (std::size_t i = 0; i < n_groups; ++i) out.d[i][t] = x.d[group + i];
  if constexpr (shape.groups() && shape.mins != 0)
    for (std::size_t i = 0; i < n_groups; ++i)
      out.d_sum[i][t] = x.d[group + i] * static_cast<float>(x.sum[group + i]);
  if constexpr (shape.pairs() != 0) {
    const std::int16_t* const sum = x.sum + (token * x.cols + k) / 16;
    for (int i = 0; i < shape.pairs(); ++i)
      out.pairs[i][t] = shape.pairs() == 8
                            ? two_words(sum[2 * i], sum[2 * i + 1])
                            : two_words(sum[4 * i] + sum[4 * i + 1], sum[4 * i + 2] + sum[4 * i + 3]);
  }
}

/// Fills TokenTile[block of 256 columns][tile] with tokens [t0, t1) of all: as few tiles as can be, and as equal.
template <FewRowsShape shape>
void lay_out_tiles(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
  auto* const tiles = reinterpret_cast<TokenTile*>(to);
  const std::size_t n = x.n_tokens, n_tiles = token_tiles(n);
  for (std::size_t i = 0; i < n_tiles; ++i) {
    const std::size_t first = n * i / n_tiles, end = n * (i + 1) / n_tiles;
    for (std::size_t t = std::max(first, t0); t < std::min(end, t1); ++t)
      for (std::size_t k = 0; k < x.cols; k += kGemmCols)
        lay_out_tile_token<shape>(x, t, k, std::min(kGemmCols, x.cols - k), t - first,
                                  tiles[k / kGemmCols * n_tiles + i]);
  }
}

inline constexpr std::size_t kHalves = 2;                       ///< of a panel, eight rows each: one register
inline constexpr std::size_t kPanelRows = kHalves * kRowGroup;  ///< that share one reading of the activations

/// Sixteen rows of 256 columns, rows in lanes.
struct alignas(64) RowPanel {
  std::uint8_t q[kGemmCols / 4][kPanelRows][4];  ///< four consecutive columns of each row
  std::int32_t scale[16][kPanelRows];            ///< twice each, as factors of pairs of int16
  std::int32_t pairs[8][kPanelRows];             ///< mins, or scales: two int16
  float d[16][kPanelRows];                       ///< Super256: [0]; else one per group of columns
  float m[8][kPanelRows];                        ///< dmin or m likewise
};

/// acc[token][row] += the products of a panel's first n_groups groups (Super256: its one) and a tile.
using TileProducts = void (*)(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                              float (*acc)[kPanelRows]);

/// Sums of int32 are more than there are registers for, beside those of int16: they are in memory meanwhile.
template <FewRowsShape shape, int T>
class TileKernel {
  using Half = __m256i[kHalves];
  using Sums = Half[T];

 public:
  static void run(const RowPanel& panel, const TokenTile& x, std::size_t n_groups, float (*acc)[kPanelRows]) {
    if constexpr (shape.groups())
      groups(panel, x, n_groups, acc);
    else
      super256(panel, x, acc);
  }

 private:
  static constexpr int kSteps = shape.steps(), kRun = shape.in_one_run(), kRuns = kSteps / kRun;

  /// Calls f(token, half) for every vector of a tile.
  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<T>([&](auto t) CRIA_INLINE { unroll<kHalves>([&](auto h) CRIA_INLINE { f(t, h); }); });
  }
  CRIA_INLINE static __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
  CRIA_INLINE static __m256i splat(const void* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm256_set1_epi32(bits);
  }
  template <class P>
  CRIA_INLINE static void load_halves(const P& rows, Half& out) {
    unroll<kHalves>([&](auto h) CRIA_INLINE { out[h] = load(rows + kRowGroup * h); });
  }
  CRIA_INLINE static void clear(Sums& sums) {
    each([&](auto t, auto h) CRIA_INLINE { sums[t][h] = _mm256_setzero_si256(); });
  }

  /// What one scale or group covers: weights, and activations of the first token.
  struct Place {
    const std::uint8_t (*w)[kPanelRows][4];
    const std::int8_t* a;
    const std::int32_t* start;
    Place(const RowPanel& panel, const TokenTile& x) : w(panel.q), a(x.q[0]), start(x.start[0]) {}
    CRIA_INLINE void next() {
      w += kSteps;
      a += 4 * kSteps;
      start += kRuns * kTileTokens;
    }
  };

  /// words = or += the products of four columns.
  template <bool first>
  CRIA_INLINE static void multiply(const Place& at, std::size_t step, Sums& words) {
    Half w;
    load_halves(at.w[step], w);
    unroll<T>([&](auto t) CRIA_INLINE {
      const __m256i a = splat(at.a + t * kGemmCols + 4 * step);
      Half p = {_mm256_maddubs_epi16(w[0], a), _mm256_maddubs_epi16(w[1], a)};
      pin_both(p);
      unroll<kHalves>([&](auto h)
                          CRIA_INLINE { words[t][h] = first ? p[h] : _mm256_add_epi16(words[t][h], p[h]); });
      if constexpr (!first) pin_both(words[t]);
    });
  }
  /// GCC would have multiplications and adds take turns, which Zen 3 does slower.
  CRIA_INLINE static void pin_both(Half& v) { asm("" : "+v"(v[0]), "+v"(v[1])); }

  template <bool first>
  CRIA_INLINE static void add_words(const Sums& words, const Half& scale, Sums& sums) {
    each([&](auto t, auto h) CRIA_INLINE {
      const __m256i p = _mm256_madd_epi16(words[t][h], scale[h]);
      sums[t][h] = first ? p : _mm256_add_epi32(sums[t][h], p);
    });
  }
  /// sums = or += scale * the products of what a scale or group covers.
  template <bool first>
  CRIA_INLINE static void dot(const Place& at, const Half& scale, Sums& sums) {
    if constexpr (shape.full) {
      if constexpr (first) clear(sums);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kSteps; ++i) {
        Half w;
        load_halves(at.w[i], w);
        const Half magnitude = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
        unroll<T>([&](auto t) CRIA_INLINE {
          const __m256i a = splat(at.a + t * kGemmCols + 4 * i);
          unroll<kHalves>([&](auto h) CRIA_INLINE {
            const __m256i p = _mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(a, w[h]));
            sums[t][h] = _mm256_add_epi32(sums[t][h], _mm256_madd_epi16(p, scale[h]));
            pin(sums[t][h]);
          });
        });
      }
      return;
    }
    constexpr int kPart = kRun < 8 ? kRun : 8;
    unroll<kRuns>([&](auto run) CRIA_INLINE {
      Sums words;
      if constexpr (shape.centred)
        unroll<T>([&](auto t)
                      CRIA_INLINE { words[t][0] = words[t][1] = splat(at.start + run * kTileTokens + t); });
#pragma GCC unroll 1
      for (std::size_t part = 0; part < kRun; part += kPart) {
        unroll<kPart>([&](auto i) CRIA_INLINE {
          constexpr bool kFirst = i == 0 && !shape.centred && kRun == kPart;
          multiply<kFirst>(at, run * kRun + part + i, words);
        });
      }
      add_words<first && run == 0>(words, scale, sums);
    });
  }

  CRIA_INLINE static void super256(const RowPanel& panel, const TokenTile& x, float (*acc)[kPanelRows]) {
    Sums sums;
    Place at(panel, x);
    if constexpr (shape.scales == 0) {
      dot<true>(at, {_mm256_set1_epi16(1), _mm256_set1_epi16(1)}, sums);
    } else {
      clear(sums);
#pragma GCC unroll 1
      for (std::size_t j = 0; j < shape.scales; ++j, at.next()) {
        Half scale;
        load_halves(panel.scale[j], scale);
        dot<false>(at, scale, sums);
      }
    }
    [[maybe_unused]] Sums pairs;
    if constexpr (shape.pairs() != 0) {
      unroll<shape.pairs()>([&](auto p) CRIA_INLINE {
        Half factors;
        load_halves(panel.pairs[p], factors);
        unroll<T>([&](auto t) CRIA_INLINE {
          const __m256i a = splat(&x.pairs[p][t]);
          unroll<kHalves>([&](auto h) CRIA_INLINE {
            const __m256i product = _mm256_madd_epi16(factors[h], a);
            pairs[t][h] = p == 0 ? product : _mm256_add_epi32(pairs[t][h], product);
            pin(pairs[t][h]);
          });
        });
      });
      if constexpr (shape.mins == 0)  // they are what the zero added
        each([&](auto t, auto h) CRIA_INLINE { sums[t][h] = _mm256_sub_epi32(sums[t][h], pairs[t][h]); });
    }
    each([&](auto t, auto h) CRIA_INLINE {
      float* const to = acc[t] + kRowGroup * h;
      const __m256 da = _mm256_broadcast_ss(&x.d[0][t]);
      const __m256 d = _mm256_mul_ps(_mm256_load_ps(panel.d[0] + kRowGroup * h), da);
      __m256 total = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums[t][h]), _mm256_load_ps(to));
      if constexpr (shape.mins != 0)
        total = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(panel.m[0] + kRowGroup * h), da),
                                 _mm256_cvtepi32_ps(pairs[t][h]), total);
      _mm256_store_ps(to, total);
    });
  }

  CRIA_INLINE static void groups(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                                 float (*acc)[kPanelRows]) {
    __m256 total[T][kHalves];
    each([&](auto t, auto h) CRIA_INLINE { total[t][h] = _mm256_load_ps(acc[t] + kRowGroup * h); });
    Place at(panel, x);
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n_groups; ++b, at.next()) {
      Sums sums;
      dot<true>(at, {_mm256_set1_epi16(1), _mm256_set1_epi16(1)}, sums);
      each([&](auto t, auto h) CRIA_INLINE {
        const __m256 scale =
            _mm256_mul_ps(_mm256_load_ps(panel.d[b] + kRowGroup * h), _mm256_broadcast_ss(&x.d[b][t]));
        total[t][h] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t][h]), total[t][h]);
        if constexpr (shape.mins != 0)
          total[t][h] = _mm256_fmadd_ps(_mm256_load_ps(panel.m[b] + kRowGroup * h),
                                        _mm256_broadcast_ss(&x.d_sum[b][t]), total[t][h]);
      });
    }
    each([&](auto t, auto h) CRIA_INLINE { _mm256_store_ps(acc[t] + kRowGroup * h, total[t][h]); });
  }
};

/// The micro-kernels of a shape for 1 … kTileTokens tokens: [tokens - 1].
template <FewRowsShape shape>
inline constexpr auto kTileProducts = []<int... t>(std::integer_sequence<int, t...>) {
  return std::array<TileProducts, sizeof...(t)>{TileKernel<shape, t + 1>::run...};
}
(std::make_integer_sequence<int, int{kTileTokens}>{});

}  // namespace cria
