// The micro-kernels of products of few tokens on AVX2: 8 rows × T tokens, T exact. Bytes are multiplied in pairs and
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
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q + i));
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
  constexpr int kColumns = 4 * shape.steps();
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

/// Eight rows of 256 columns, rows in lanes.
struct alignas(64) RowPanel {
  std::uint8_t q[kGemmCols / 4][kRowGroup][4];  ///< four consecutive columns of each row
  std::int32_t scale[16][kRowGroup];            ///< twice each, as factors of pairs of int16
  std::int32_t pairs[8][kRowGroup];             ///< mins, or scales: two int16
  float d[16][kRowGroup];                       ///< Super256: [0]; else one per group of columns
  float m[8][kRowGroup];                        ///< dmin or m likewise
};

/// acc[token][row] += the products of a panel's first n_groups groups (Super256: its one) and a tile.
using TileProducts = void (*)(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                              float (*acc)[kRowGroup]);

template <FewRowsShape shape, int T>
class TileKernel {
  using Sums = __m256i[T];
  using Totals = __m256[T];

 public:
  static void run(const RowPanel& panel, const TokenTile& x, std::size_t n_groups, float (*acc)[kRowGroup]) {
    if constexpr (shape.groups())
      groups(panel, x, n_groups, acc);
    else
      super256(panel, x, acc);
  }

 private:
  static constexpr int kSteps = shape.steps();

  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<T>(f);
  }
  CRIA_INLINE static __m256i load(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }
  CRIA_INLINE static __m256i splat(const void* p) {
    std::int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm256_set1_epi32(bits);
  }
  CRIA_INLINE static void clear(Sums& sums) {
    each([&](auto t) CRIA_INLINE { sums[t] = _mm256_setzero_si256(); });
  }

  /// words = or += the products of four columns from `column` on.
  template <bool first>
  CRIA_INLINE static void multiply(const RowPanel& panel, const TokenTile& x, std::size_t column,
                                   Sums& words) {
    const __m256i w = load(panel.q[column / 4]);
    each([&](auto t) CRIA_INLINE {
      const __m256i p = _mm256_maddubs_epi16(w, splat(x.q[t] + column));
      words[t] = first ? p : _mm256_add_epi16(words[t], p);
      pin(words[t]);
    });
  }
  CRIA_INLINE static void add_words(const Sums& words, __m256i scale, Sums& sums) {
    each([&](auto t) CRIA_INLINE {
      sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(words[t], scale));
      pin(sums[t]);
    });
  }
  /// sums += scale * the products of what the j-th scale or group covers.
  CRIA_INLINE static void dot(const RowPanel& panel, const TokenTile& x, std::size_t j, __m256i scale,
                              Sums& sums) {
    const std::size_t column = j * 4 * kSteps;
    if constexpr (shape.full) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kSteps; ++i) {
        const __m256i w = load(panel.q[column / 4 + i]), magnitude = _mm256_abs_epi8(w);
        each([&](auto t) CRIA_INLINE {
          const __m256i a = _mm256_sign_epi8(splat(x.q[t] + column + 4 * i), w);
          sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, a), scale));
          pin(sums[t]);
        });
      }
      return;
    }
    constexpr int kRun = shape.run < kSteps ? shape.run : kSteps, kPart = kRun < 8 ? kRun : 8;
#pragma GCC unroll 8
    for (std::size_t run = 0; run < kSteps; run += kRun) {
      Sums words;
      if constexpr (shape.centred) each([&](auto t) CRIA_INLINE { words[t] = splat(&x.start[j][t]); });
#pragma GCC unroll 1
      for (std::size_t part = run; part < run + kRun; part += kPart) {
        unroll<kPart>([&](auto i) CRIA_INLINE {
          constexpr bool kFirst = i == 0 && !shape.centred && kRun == kPart;
          multiply<kFirst>(panel, x, column + 4 * (part + i), words);
        });
      }
      add_words(words, scale, sums);
    }
  }

  CRIA_INLINE static void super256(const RowPanel& panel, const TokenTile& x, float (*acc)[kRowGroup]) {
    Sums sums;
    clear(sums);
    if constexpr (shape.scales == 0) {
      dot(panel, x, 0, _mm256_set1_epi16(1), sums);
    } else {
#pragma GCC unroll 1
      for (std::size_t j = 0; j < shape.scales; ++j) dot(panel, x, j, load(panel.scale[j]), sums);
    }
    [[maybe_unused]] Sums pairs;
    if constexpr (shape.pairs() != 0) {
      clear(pairs);
      unroll<shape.pairs()>([&](auto p) CRIA_INLINE {
        const __m256i factors = load(panel.pairs[p]);
        each([&](auto t) CRIA_INLINE {
          pairs[t] = _mm256_add_epi32(pairs[t], _mm256_madd_epi16(factors, splat(&x.pairs[p][t])));
          pin(pairs[t]);
        });
      });
      if constexpr (shape.mins == 0)  // they are what the zero added
        each([&](auto t) CRIA_INLINE { sums[t] = _mm256_sub_epi32(sums[t], pairs[t]); });
    }
    const __m256 d = _mm256_load_ps(panel.d[0]);
    each([&](auto t) CRIA_INLINE {
      const __m256 da = _mm256_broadcast_ss(&x.d[0][t]);
      __m256 total = _mm256_load_ps(acc[t]);
      total = _mm256_fmadd_ps(_mm256_mul_ps(d, da), _mm256_cvtepi32_ps(sums[t]), total);
      if constexpr (shape.mins != 0)
        total = _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_load_ps(panel.m[0]), da), _mm256_cvtepi32_ps(pairs[t]),
                                 total);
      _mm256_store_ps(acc[t], total);
    });
  }

  CRIA_INLINE static void groups(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                                 float (*acc)[kRowGroup]) {
    Totals total;
    each([&](auto t) CRIA_INLINE { total[t] = _mm256_load_ps(acc[t]); });
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n_groups; ++b) {
      Sums sums;
      clear(sums);
      dot(panel, x, b, _mm256_set1_epi16(1), sums);
      const __m256 d = _mm256_load_ps(panel.d[b]);
      each([&](auto t) CRIA_INLINE {
        const __m256 scale = _mm256_mul_ps(d, _mm256_broadcast_ss(&x.d[b][t]));
        total[t] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t]), total[t]);
        if constexpr (shape.mins != 0)
          total[t] =
              _mm256_fmadd_ps(_mm256_load_ps(panel.m[b]), _mm256_broadcast_ss(&x.d_sum[b][t]), total[t]);
      });
    }
    each([&](auto t) CRIA_INLINE { _mm256_store_ps(acc[t], total[t]); });
  }
};

/// The micro-kernels of a shape for 1 … kTileTokens tokens: [tokens - 1].
template <FewRowsShape shape>
inline constexpr auto kTileProducts = []<int... t>(std::integer_sequence<int, t...>) {
  return std::array<TileProducts, sizeof...(t)>{TileKernel<shape, t + 1>::run...};
}
(std::make_integer_sequence<int, int{kTileTokens}>{});

}  // namespace cria
