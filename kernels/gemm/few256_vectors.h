// What the micro-kernels of products of few tokens on AVX2 and AVX-VNNI work on: a panel of sixteen
// rows, and a tile's vectors.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/few256_tokens.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

inline constexpr std::size_t kHalves = 2;  ///< of a panel, eight rows each: one register
inline constexpr std::size_t kPanelRows =
    kHalves * kRowGroup;  ///< that share one reading of the activations

/// Sixteen rows of 256 columns, rows in lanes.
struct alignas(64) RowPanel {
  std::uint8_t q[kGemmCols / 4][kPanelRows][4];  ///< four consecutive columns of each row
  std::int32_t scale[16][kPanelRows];            ///< as TileDots wants them
  std::int32_t pairs[8][kPanelRows];             ///< mins, or scales: two int16
  float d[16][kPanelRows];                       ///< Super256: [0]; else one per group of columns
  float m[8][kPanelRows];                        ///< dmin or m likewise
};

/// The vectors of T tokens.
template <FewRowsShape shape, int T>
struct TileVectors {
  using Half = __m256i[kHalves];
  using Sums = Half[T];

  /// Calls f(token, half) for every vector of a tile.
  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<T>([&](auto t) CRIA_INLINE { unroll<kHalves>([&](auto h) CRIA_INLINE { f(t, h); }); });
  }
  CRIA_INLINE static __m256i load(const void* p) {
    return _mm256_load_si256(static_cast<const __m256i*>(p));
  }
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
      w += shape.steps();
      a += 4 * shape.steps();
      start += shape.steps() / shape.in_one_run() * kTileTokens;
    }
    /// Columns 4 * step … 4 * step + 3 of token t.
    CRIA_INLINE __m256i token(std::size_t t, std::size_t step) const {
      return splat(a + t * kGemmCols + 4 * step);
    }
  };
};

/// The products of a tile (avx2_dots.h, avxvnni_dots.h). dot(at, sums): sums = the products of what
/// a scale or group covers; add_scaled(at, scale, sums): sums += scale times these;
/// add_pairs<first>(a, b, sum): sum = or += the products of pairs of int16; put_scales(pair, even,
/// odd): two scales of eight rows, given as pairs of int16, as add_scaled() wants them.
template <FewRowsShape shape, int T>
struct TileDots;

}  // namespace cria
