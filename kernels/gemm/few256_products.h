// The micro-kernels of products of few tokens on AVX2 and AVX-VNNI: 16 rows × T tokens, T exact.
#pragma once

#include <immintrin.h>

#include <array>
#include <utility>

#include "kernels/gemm/few256_vectors.h"

namespace cria {

/// acc[token][row] += the products of a panel's first n_groups groups (Super256: its one) and a
/// tile.
using TileProducts = void (*)(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                              float (*acc)[kPanelRows]);

/// Sums of int32 are more than there are registers for, beside those before a scale: they are in
/// memory meanwhile.
template <FewRowsShape shape, int T>
class TileKernel {
  using Dots = TileDots<shape, T>;
  using Half = typename Dots::Half;
  using Sums = typename Dots::Sums;
  using Place = typename Dots::Place;

 public:
  static void run(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                  float (*acc)[kPanelRows]) {
    if constexpr (shape.groups())
      groups(panel, x, n_groups, acc);
    else
      super256(panel, x, acc);
  }

 private:
  CRIA_INLINE static void super256(const RowPanel& panel, const TokenTile& x,
                                   float (*acc)[kPanelRows]) {
    Sums sums;
    Place at(panel, x);
    if constexpr (shape.scales == 0) {
      Dots::dot(at, sums);
    } else {
      Dots::clear(sums);
#pragma GCC unroll 1
      for (std::size_t j = 0; j < shape.scales; ++j, at.next()) {
        Half scale;
        Dots::load_halves(panel.scale[j], scale);
        Dots::add_scaled(at, scale, sums);
      }
    }
    [[maybe_unused]] Sums pairs;
    if constexpr (shape.pairs() != 0) {
      add_pairs(panel, x, pairs);
      if constexpr (shape.mins == 0)  // they are what the zero added
        Dots::each([&](auto t, auto h)
                       CRIA_INLINE { sums[t][h] = _mm256_sub_epi32(sums[t][h], pairs[t][h]); });
    }
    Dots::each([&](auto t, auto h) CRIA_INLINE {
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
  /// pairs = the products of the panel's pairs and the tile's.
  CRIA_INLINE static void add_pairs(const RowPanel& panel, const TokenTile& x, Sums& pairs) {
    unroll<shape.pairs()>([&](auto p) CRIA_INLINE {
      Half factors;
      Dots::load_halves(panel.pairs[p], factors);
      unroll<T>([&](auto t) CRIA_INLINE {
        const __m256i a = Dots::splat(&x.pairs[p][t]);
        unroll<kHalves>([&](auto h) CRIA_INLINE {
          Dots::template add_pairs<p == 0>(factors[h], a, pairs[t][h]);
          pin(pairs[t][h]);
        });
      });
    });
  }

  CRIA_INLINE static void groups(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                                 float (*acc)[kPanelRows]) {
    __m256 total[T][kHalves];
    Dots::each([&](auto t, auto h)
                   CRIA_INLINE { total[t][h] = _mm256_load_ps(acc[t] + kRowGroup * h); });
    Place at(panel, x);
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n_groups; ++b, at.next()) {
      Sums sums;
      Dots::dot(at, sums);
      Dots::each([&](auto t, auto h) CRIA_INLINE {
        const __m256 scale = _mm256_mul_ps(_mm256_load_ps(panel.d[b] + kRowGroup * h),
                                           _mm256_broadcast_ss(&x.d[b][t]));
        total[t][h] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums[t][h]), total[t][h]);
        if constexpr (shape.mins != 0)
          total[t][h] = _mm256_fmadd_ps(_mm256_load_ps(panel.m[b] + kRowGroup * h),
                                        _mm256_broadcast_ss(&x.d_sum[b][t]), total[t][h]);
      });
    }
    Dots::each([&](auto t, auto h)
                   CRIA_INLINE { _mm256_store_ps(acc[t] + kRowGroup * h, total[t][h]); });
  }
};

/// The micro-kernels of a shape for 1 … kTileTokens tokens: [tokens - 1].
template <FewRowsShape shape>
inline constexpr auto kTileProducts = []<int... t>(std::integer_sequence<int, t...>) {
  return std::array<TileProducts, sizeof...(t)>{TileKernel<shape, t + 1>::run...};
}
(std::make_integer_sequence<int, int{kTileTokens}>{});

}  // namespace cria
