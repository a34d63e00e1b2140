// The micro-kernel of products of few tokens on AVX-512: 16 rows × T tokens × 256 columns, T exact. A register
// of weights meets the activations in memory: no instruction of its own broadcasts them.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/few_panel.h"

namespace cria {

/// acc[t] += the products of a panel's first n_groups groups (Super256: its one) and token t of x.
using FewProducts = void (*)(const FewPanel& panel, const FewToken* x, std::size_t n_groups,
                             const FewAhead& ahead, float (*acc)[kFewRows]);

template <int T>
class FewKernel {
  using Sums = __m512i[T];

  /// sums += the products of 4n columns.
  template <std::size_t n>
  [[gnu::always_inline]] static void dot(const std::uint8_t (*q)[kFewRows][4], const FewToken* x,
                                         std::size_t column, Sums& sums) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < n; ++i) {
      const __m512i w = _mm512_load_si512(q[i]);
      unroll<T>([&](auto t) CRIA_INLINE {
        using Four = const std::int8_t[4];
        // Clang captures nothing that only an asm names.
        __m512i& sum = sums[t];
        const __m512i& weights = w;
        Four& values = reinterpret_cast<Four&>(x[t].q[column + 4 * i]);
        asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(values));
      });
    }
  }
  [[gnu::always_inline]] static void begin(const FewToken* x, std::size_t j, Sums& sums) {
    unroll<T>([&](auto t) CRIA_INLINE { sums[t] = _mm512_set1_epi32(x[t].start[j]); });
  }
  [[gnu::always_inline]] static __m512 splat(float x) { return _mm512_set1_ps(x); }

 public:
  template <int scales, bool fits, int n_mins>
  static void super256(const FewPanel& panel, const FewToken* x, std::size_t, const FewAhead& ahead,
                       float (*acc)[kFewRows]) {
    Sums block;
    if constexpr (scales == 0)
      begin(x, 0, block);
    else
      unroll<T>([&](auto t) CRIA_INLINE { block[t] = _mm512_setzero_si512(); });
#pragma GCC unroll 1
    for (std::size_t c = 0; c < 8; ++c) {
      ahead.while_multiplied(c);
      if constexpr (scales == 0) {
        dot<8>(panel.q + 8 * c, x, 32 * c, block);
      } else {
        constexpr std::size_t kParts = scales / 8;
        for (std::size_t h = 0; h < kParts; ++h) {
          const std::size_t j = kParts * c + h;
          Sums sums;
          begin(x, j, sums);
          dot<8 / kParts>(panel.q + 8 / kParts * j, x, 32 / kParts * j, sums);
          const __m512i scale = _mm512_load_si512(panel.scale[j]);
          unroll<T>([&](auto t) CRIA_INLINE {
            block[t] = fits ? _mm512_dpwssd_epi32(block[t], sums[t], scale)
                            : _mm512_add_epi32(block[t], _mm512_mullo_epi32(sums[t], scale));
          });
        }
      }
    }
    const __m512 d = _mm512_load_ps(panel.d[0]);
    [[maybe_unused]] const __m512 m = _mm512_load_ps(panel.m[0]);
    unroll<T>([&](auto t) CRIA_INLINE {
      const __m512 da = splat(x[t].d[0]);
      __m512 sum =
          _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(block[t]), _mm512_load_ps(acc[t]));
      if constexpr (n_mins != 0) {
        __m512i mins = _mm512_setzero_si512();
        for (int p = 0; p < n_mins / 2; ++p) {
          std::int32_t pair;
          __builtin_memcpy(&pair, x[t].pairs + 2 * p, sizeof pair);
          mins = _mm512_dpwssd_epi32(mins, _mm512_load_si512(panel.min[p]), _mm512_set1_epi32(pair));
        }
        sum = _mm512_fnmadd_ps(_mm512_mul_ps(m, da), _mm512_cvtepi32_ps(mins), sum);
      }
      _mm512_store_ps(acc[t], sum);
    });
  }

  template <int group, bool has_m>
  static void groups(const FewPanel& panel, const FewToken* x, std::size_t n_groups, const FewAhead& ahead,
                     float (*acc)[kFewRows]) {
    __m512 total[T];
    unroll<T>([&](auto t) CRIA_INLINE { total[t] = _mm512_load_ps(acc[t]); });
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n_groups; ++b) {
      if (group == 32 || b % 2 == 0) ahead.while_multiplied(group == 32 ? b : b / 2);
      Sums sums;
      begin(x, b, sums);
      dot<group / 4>(panel.q + group / 4 * b, x, group * b, sums);
      const __m512 d = _mm512_load_ps(panel.d[b]);
      unroll<T>([&](auto t) CRIA_INLINE {
        total[t] = _mm512_fmadd_ps(_mm512_mul_ps(d, splat(x[t].d[b])), _mm512_cvtepi32_ps(sums[t]), total[t]);
        if constexpr (has_m)
          total[t] = _mm512_fmadd_ps(_mm512_load_ps(panel.m[b]), splat(x[t].d_sum[b]), total[t]);
      });
    }
    unroll<T>([&](auto t) CRIA_INLINE { _mm512_store_ps(acc[t], total[t]); });
  }
};

/// The micro-kernels of a shape for 1 … 8 tokens: [tokens - 1]. Types of equal shape share them.
inline constexpr std::size_t kFewTile = 8;
template <int group, int scales, bool fits, int mins>
inline constexpr auto kFewProducts = []<int... t>(std::integer_sequence<int, t...>) {
  if constexpr (group < 256)
    return std::array<FewProducts, kFewTile>{FewKernel<t + 1>::template groups<group, mins != 0>...};
  else
    return std::array<FewProducts, kFewTile>{FewKernel<t + 1>::template super256<scales, fits, mins>...};
}
(std::make_integer_sequence<int, int{kFewTile}>{});

}  // namespace cria
