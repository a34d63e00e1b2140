// The micro-kernels of products of few tokens on AVX-512: 16 rows × T tokens, T exact. A register of weights
// meets the activations in memory: no instruction of its own broadcasts them.
#pragma once

#include <immintrin.h>

#include <array>

#include "kernels/gemm/few_panel.h"
#include "kernels/gemv/fetch_ahead.h"

namespace cria {

/// What products of T tokens consist of.
template <FewShape shape, bool fits, int T>
struct FewSteps {
  using Sums = __m512i[T];
  using Totals = __m512[T];

  /// sums += the products of four columns.
  CRIA_INLINE static void dot(__m512i w, const FewToken* x, std::size_t column, Sums& sums) {
    unroll<T>([&](auto t) CRIA_INLINE {
      using Four = const std::int8_t[4];
      // Clang captures nothing that only an asm names.
      __m512i& sum = sums[t];
      const __m512i& weights = w;
      Four& values = reinterpret_cast<Four&>(x[t].q[column]);
      asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(values));
    });
  }
  CRIA_INLINE static void begin(const FewToken* x, std::size_t j, Sums& sums) {
    unroll<T>([&](auto t) CRIA_INLINE {
      sums[t] = shape.zero != 0 ? _mm512_set1_epi32(x[t].start[j]) : _mm512_setzero_si512();
    });
  }
  CRIA_INLINE static void begin_block(const FewToken* x, Sums& block) {
    if constexpr (shape.scales == 0)
      begin(x, 0, block);
    else
      unroll<T>([&](auto t) CRIA_INLINE { block[t] = _mm512_setzero_si512(); });
  }
  /// block += the sums times their scale.
  CRIA_INLINE static void add_scaled(const Sums& sums, const std::int32_t (&scale)[kFewRows], Sums& block) {
    const __m512i s = _mm512_load_si512(scale);
    unroll<T>([&](auto t) CRIA_INLINE {
      block[t] = fits ? _mm512_dpwssd_epi32(block[t], sums[t], s)
                      : _mm512_add_epi32(block[t], _mm512_mullo_epi32(sums[t], s));
      pin(block[t]);
    });
  }
  CRIA_INLINE static void add_block(const Sums& block, const FewScales& scales, const FewToken* x,
                                    Totals& total) {
    const __m512 d = _mm512_load_ps(scales.d[0]);
    [[maybe_unused]] const __m512 m = _mm512_load_ps(scales.m[0]);
    unroll<T>([&](auto t) CRIA_INLINE {
      const __m512 da = _mm512_set1_ps(x[t].d[0]);
      total[t] = _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(block[t]), total[t]);
      if constexpr (shape.mins != 0) {
        __m512i mins = _mm512_setzero_si512();
        unroll<shape.mins / 2>([&](auto p) CRIA_INLINE {
          std::int32_t pair;
          __builtin_memcpy(&pair, x[t].pairs + 2 * p, sizeof pair);
          mins = _mm512_dpwssd_epi32(mins, _mm512_load_si512(scales.min[p]), _mm512_set1_epi32(pair));
        });
        total[t] = _mm512_fnmadd_ps(_mm512_mul_ps(m, da), _mm512_cvtepi32_ps(mins), total[t]);
      }
    });
  }
  /// Group i of the scales, b of the tokens.
  CRIA_INLINE static void add_group(const Sums& sums, const FewScales& scales, std::size_t i,
                                    const FewToken* x, std::size_t b, Totals& total) {
    const __m512 d = _mm512_load_ps(scales.d[i]);
    unroll<T>([&](auto t) CRIA_INLINE {
      total[t] =
          _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x[t].d[b])), _mm512_cvtepi32_ps(sums[t]), total[t]);
      if constexpr (shape.mins != 0)
        total[t] = _mm512_fmadd_ps(_mm512_load_ps(scales.m[i]), _mm512_set1_ps(x[t].d_sum[b]), total[t]);
    });
  }
};

/// acc[t] += the products of a panel's first n_groups groups (Super256: its one) and token t of x.
using FewProducts = void (*)(const FewPanel& panel, const FewToken* x, std::size_t n_groups,
                             const FewAhead& ahead, float (*acc)[kFewRows]);

template <FewShape shape, bool fits, int T>
class FewKernel {
  using Steps = FewSteps<shape, fits, T>;
  using Sums = typename Steps::Sums;

  /// sums += the products of 4n columns.
  template <std::size_t n>
  CRIA_INLINE static void dot(const std::uint8_t (*q)[kFewRows][4], const FewToken* x, std::size_t column,
                              Sums& sums) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < n; ++i) Steps::dot(_mm512_load_si512(q[i]), x, column + 4 * i, sums);
  }

 public:
  static void run(const FewPanel& panel, const FewToken* x, std::size_t n_groups, const FewAhead& ahead,
                  float (*acc)[kFewRows]) {
    typename Steps::Totals total;
    unroll<T>([&](auto t) CRIA_INLINE { total[t] = _mm512_load_ps(acc[t]); });
    if constexpr (shape.group < 256)
      groups(panel, x, n_groups, ahead, total);
    else
      super256(panel, x, ahead, total);
    unroll<T>([&](auto t) CRIA_INLINE { _mm512_store_ps(acc[t], total[t]); });
  }

 private:
  CRIA_INLINE static void super256(const FewPanel& panel, const FewToken* x, const FewAhead& ahead,
                                   typename Steps::Totals& total) {
    Sums block;
    Steps::begin_block(x, block);
#pragma GCC unroll 1
    for (std::size_t c = 0; c < 8; ++c) {
      ahead.while_multiplied(c);
      if constexpr (shape.scales == 0) {
        dot<8>(panel.q + 8 * c, x, 32 * c, block);
      } else {
        constexpr std::size_t kParts = shape.scales / 8;
        for (std::size_t h = 0; h < kParts; ++h) {
          const std::size_t j = kParts * c + h;
          Sums sums;
          Steps::begin(x, j, sums);
          dot<8 / kParts>(panel.q + 8 / kParts * j, x, 32 / kParts * j, sums);
          Steps::add_scaled(sums, panel.scales.scale[j], block);
        }
      }
    }
    Steps::add_block(block, panel.scales, x, total);
  }

  CRIA_INLINE static void groups(const FewPanel& panel, const FewToken* x, std::size_t n_groups,
                                 const FewAhead& ahead, typename Steps::Totals& total) {
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n_groups; ++b) {
      if (shape.group == 32 || b % 2 == 0) ahead.while_multiplied(shape.group == 32 ? b : b / 2);
      Sums sums;
      Steps::begin(x, b, sums);
      dot<shape.group / 4>(panel.q + shape.group / 4 * b, x, shape.group * b, sums);
      Steps::add_group(sums, panel.scales, b, x, b, total);
    }
  }
};

/// The micro-kernels of a shape for 4 … 8 tokens: [tokens - 4]. Types of equal shape share them.
inline constexpr std::size_t kLeastFewTile = 4, kFewTile = 8;
template <FewShape shape, bool fits>
inline constexpr auto kFewProducts = []<int... t>(std::integer_sequence<int, t...>) {
  return std::array<FewProducts, sizeof...(t)>{FewKernel<shape, fits, t + int{kLeastFewTile}>::run...};
}
(std::make_integer_sequence<int, int{kFewTile - kLeastFewTile + 1}>{});

/// Products of T tokens and weights that are decoded, transposed and multiplied in registers. Decoding wants the
/// shuffles' pipes and products the multipliers': the processor does the former of some columns while it still does
/// the latter of those before.
template <DType type, int T>
class FewAtOnce {
  using Decoder = FewDecoder<type>;
  static constexpr FewShape kShape = Decoder::kShape;
  static constexpr int kParts = Decoder::kBlockValues / 32;
  static constexpr int kColumns = kShape.group < 32 || kShape.scales == 16 ? 16 : 32;  ///< of a sum
  using Steps = FewSteps<kShape, Decoder::kFits, T>;
  using Sums = typename Steps::Sums;

 public:
  /// total[t] += the products of the block at `offset` of the rows and token t, from column k of x on.
  CRIA_INLINE static void add_block(const typename Decoder::Rows& rows, std::size_t offset, const FewToken* x,
                                    std::size_t k, const std::byte* far, typename Steps::Totals& total) {
    FewScales scales;
    Decoder::scales(rows, offset, 0, scales);
    [[maybe_unused]] Sums block;
    if constexpr (kShape.group == 256) Steps::begin_block(x, block);
    Decoder::weights(rows, offset, [&](std::size_t j, const auto& w0, const auto& w1) CRIA_INLINE {
      fetch(rows, offset, far, j);
      if constexpr (kShape.group == 256 && kShape.scales == 0) {
        dot(w0, x, 32 * j, block);
        dot(w1, x, 32 * j + 16, block);
        pin(block[0]);
      } else {
        constexpr std::size_t kEach = 32 / kColumns;
        Sums sums;
        Steps::begin(x, k / kColumns + kEach * j, sums);
        dot(w0, x, k + 32 * j, sums);
        if constexpr (kEach == 2) {
          add_sums(sums, scales, 2 * j, x, k, block, total);
          Steps::begin(x, k / kColumns + 2 * j + 1, sums);
        }
        dot(w1, x, k + 32 * j + 16, sums);
        add_sums(sums, scales, kEach * (j + 1) - 1, x, k, block, total);
      }
    });
    if constexpr (kShape.group == 256) Steps::add_block(block, scales, x, total);
  }

 private:
  CRIA_INLINE static void dot(const __m512i (&w)[4], const FewToken* x, std::size_t column, Sums& sums) {
    unroll<4>([&](auto c) CRIA_INLINE { Steps::dot(w[c], x, column + 4 * c, sums); });
  }
  /// i: which sums of the block.
  CRIA_INLINE static void add_sums(const Sums& sums, const FewScales& scales, std::size_t i,
                                   const FewToken* x, [[maybe_unused]] std::size_t k,
                                   [[maybe_unused]] Sums& block,
                                   [[maybe_unused]] typename Steps::Totals& total) {
    if constexpr (kShape.group == 256) {
      Steps::add_scaled(sums, scales.scale[i], block);
    } else {
      Steps::add_group(sums, scales, i, x, k / kShape.group + i, total);
      pin(total[0]);  // or all prefetches of the block follow each other
    }
  }
  CRIA_INLINE static void fetch(const typename Decoder::Rows& rows, std::size_t offset, const std::byte* far,
                                std::size_t j) {
    fetch_far<kFewRows * Decoder::kBytes, kParts>(far, static_cast<int>(j));
    for (std::size_t r = j * kFewRows / kParts; r < (j + 1) * kFewRows / kParts; ++r)
      fetch_near<Decoder::kBytes>(rows.at[r] + offset);
  }
};

}  // namespace cria
