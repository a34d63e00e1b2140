// The micro-kernels of products of few tokens on AVX-512, T exact: 32 rows × T tokens out of two
// panels, whose registers share a broadcast of the activations, or 16 rows × T without a panel,
// which meet the activations in memory.
#pragma once

#include <immintrin.h>

#include <array>

#include "kernels/gemm/few512_panel.h"
#include "kernels/gemv/fetch_ahead.h"

namespace cria {

/// What products of T tokens and R registers of rows consist of.
template <FewShape shape, bool fits, int T, int R = 1>
struct FewSteps {
  using Weights = __m512i[R];
  using Sums = __m512i[R][T];
  using Totals = __m512[R][T];

  /// sums += the products of four columns. One register of rows meets the activations in memory;
  /// two share a broadcast.
  CRIA_INLINE static void dot(const Weights& w, const FewToken* x, std::size_t column, Sums& sums) {
    unroll<T>([&](auto t) CRIA_INLINE {
      using Four = const std::int8_t[4];
      Four& values = reinterpret_cast<Four&>(x[t].q[column]);
      if constexpr (R == 1) {
        // Clang captures nothing that only an asm names.
        __m512i& sum = sums[0][t];
        const __m512i& weights = w[0];
        asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(values));
      } else {
        __m512i same;
        asm("vpbroadcastd %1, %0" : "=v"(same) : "m"(values));
        unroll<R>([&](auto r)
                      CRIA_INLINE { sums[r][t] = _mm512_dpbusd_epi32(sums[r][t], w[r], same); });
      }
    });
  }
  CRIA_INLINE static void begin(const FewToken* x, std::size_t j, Sums& sums) {
    each([&](auto r, auto t) CRIA_INLINE {
      sums[r][t] = shape.zero != 0 ? _mm512_set1_epi32(x[t].start[j]) : _mm512_setzero_si512();
    });
  }
  CRIA_INLINE static void begin_block(const FewToken* x, Sums& block) {
    if constexpr (shape.scales == 0)
      begin(x, 0, block);
    else
      each([&](auto r, auto t) CRIA_INLINE { block[r][t] = _mm512_setzero_si512(); });
  }
  /// block += the sums times their scale, the j-th. scales(r): what register r of the rows has
  /// beside its weights.
  template <class Scales>
  CRIA_INLINE static void add_scaled(const Sums& sums, const Scales& scales, std::size_t j,
                                     Sums& block) {
    each([&](auto r, auto t) CRIA_INLINE {
      const __m512i s = _mm512_load_si512(scales(r).scale[j]);
      block[r][t] = fits ? _mm512_dpwssd_epi32(block[r][t], sums[r][t], s)
                         : _mm512_add_epi32(block[r][t], _mm512_mullo_epi32(sums[r][t], s));
      pin(block[r][t]);
    });
  }
  template <class Scales>
  CRIA_INLINE static void add_block(const Sums& block, const Scales& scales, const FewToken* x,
                                    Totals& total) {
    each([&](auto r, auto t) CRIA_INLINE {
      const __m512 d = _mm512_load_ps(scales(r).d[0]), da = _mm512_set1_ps(x[t].d[0]);
      total[r][t] =
          _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(block[r][t]), total[r][t]);
      if constexpr (shape.mins != 0) {
        __m512i mins = _mm512_setzero_si512();
        unroll<shape.mins / 2>([&](auto p) CRIA_INLINE {
          std::int32_t pair;
          __builtin_memcpy(&pair, x[t].pairs + 2 * p, sizeof pair);
          mins = _mm512_dpwssd_epi32(mins, _mm512_load_si512(scales(r).min[p]),
                                     _mm512_set1_epi32(pair));
        });
        const __m512 m = _mm512_load_ps(scales(r).m[0]);
        total[r][t] = _mm512_fnmadd_ps(_mm512_mul_ps(m, da), _mm512_cvtepi32_ps(mins), total[r][t]);
      }
    });
  }
  /// Group i of the scales, b of the tokens.
  template <class Scales>
  CRIA_INLINE static void add_group(const Sums& sums, const Scales& scales, std::size_t i,
                                    const FewToken* x, std::size_t b, Totals& total) {
    each([&](auto r, auto t) CRIA_INLINE {
      const __m512 d = _mm512_load_ps(scales(r).d[i]);
      total[r][t] = _mm512_fmadd_ps(_mm512_mul_ps(d, _mm512_set1_ps(x[t].d[b])),
                                    _mm512_cvtepi32_ps(sums[r][t]), total[r][t]);
      if constexpr (shape.mins != 0)
        total[r][t] = _mm512_fmadd_ps(_mm512_load_ps(scales(r).m[i]), _mm512_set1_ps(x[t].d_sum[b]),
                                      total[r][t]);
    });
  }

  /// f(r, t) for all.
  template <class F>
  CRIA_INLINE static void each(const F& f) {
    unroll<R>([&](auto r) CRIA_INLINE { unroll<T>([&](auto t) CRIA_INLINE { f(r, t); }); });
  }
};

/// The panels that meet the same tokens, one for each register of rows.
inline constexpr int kFewPanels = 2;
inline constexpr std::size_t kFewPanelRows = kFewPanels * kFewRows;

/// acc[t] += the products of the panels' first n_groups groups (Super256: their one) and token t of
/// x.
using FewProducts = void (*)(const FewPanel* panels, const FewToken* x, std::size_t n_groups,
                             const FewAhead* ahead, float (*acc)[kFewPanelRows]);

template <FewShape shape, bool fits, int T>
class FewKernel {
  using Steps = FewSteps<shape, fits, T, kFewPanels>;
  using Sums = typename Steps::Sums;
  using Totals = typename Steps::Totals;

 public:
  static void run(const FewPanel* panels, const FewToken* x, std::size_t n_groups,
                  const FewAhead* ahead, float (*acc)[kFewPanelRows]) {
    if constexpr (shape.group < 256)
      groups(panels, x, n_groups, ahead, acc);
    else
      super256(panels, x, ahead, acc);
  }

 private:
  CRIA_INLINE static void load(const float (*acc)[kFewPanelRows], Totals& total) {
    Steps::each([&](auto r, auto t) CRIA_INLINE {
      total[r][t] = _mm512_load_ps(acc[t] + std::size_t{r} * kFewRows);
    });
  }
  CRIA_INLINE static void store(const Totals& total, float (*acc)[kFewPanelRows]) {
    Steps::each([&](auto r, auto t) CRIA_INLINE {
      _mm512_store_ps(acc[t] + std::size_t{r} * kFewRows, total[r][t]);
    });
  }
  CRIA_INLINE static auto scales_of(const FewPanel* panels) {
    return [panels](auto r) CRIA_INLINE -> const FewScales& { return panels[r].scales; };
  }
  /// sums += the products of 4n columns.
  template <std::size_t n>
  CRIA_INLINE static void dot(const FewPanel* panels, const FewToken* x, std::size_t column,
                              Sums& sums) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < n; ++i) {
      typename Steps::Weights w;
      unroll<kFewPanels>(
          [&](auto r) CRIA_INLINE { w[r] = _mm512_load_si512(panels[r].q[column / 4 + i]); });
      Steps::dot(w, x, column + 4 * i, sums);
    }
  }
  CRIA_INLINE static void fetch(const FewAhead* ahead, std::size_t part) {
    for (int r = 0; r < kFewPanels; ++r) ahead[r].while_multiplied(part);
  }

  CRIA_INLINE static void super256(const FewPanel* panels, const FewToken* x, const FewAhead* ahead,
                                   float (*acc)[kFewPanelRows]) {
    Sums block;
    Steps::begin_block(x, block);
#pragma GCC unroll 1
    for (std::size_t c = 0; c < 8; ++c) {
      fetch(ahead, c);
      if constexpr (shape.scales == 0) {
        dot<8>(panels, x, 32 * c, block);
      } else {
        constexpr std::size_t kParts = shape.scales / 8;
        for (std::size_t h = 0; h < kParts; ++h) {
          const std::size_t j = kParts * c + h;
          Sums sums;
          Steps::begin(x, j, sums);
          dot<8 / kParts>(panels, x, 32 / kParts * j, sums);
          Steps::add_scaled(sums, scales_of(panels), j, block);
        }
      }
    }
    Totals total;
    load(acc, total);
    Steps::add_block(block, scales_of(panels), x, total);
    store(total, acc);
  }

  CRIA_INLINE static void groups(const FewPanel* panels, const FewToken* x, std::size_t n_groups,
                                 const FewAhead* ahead, float (*acc)[kFewPanelRows]) {
    Totals total;
    load(acc, total);
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n_groups; ++b) {
      if (shape.group == 32 || b % 2 == 0) fetch(ahead, shape.group == 32 ? b : b / 2);
      Sums sums;
      Steps::begin(x, b, sums);
      dot<shape.group / 4>(panels, x, shape.group * b, sums);
      Steps::add_group(sums, scales_of(panels), b, x, b, total);
    }
    store(total, acc);
  }
};

/// The micro-kernels of a shape for 3 … 6 tokens: [tokens - 3]. Types of equal shape share them.
inline constexpr std::size_t kMinFewTile = 3, kFewTile = 6;
template <FewShape shape, bool fits>
inline constexpr auto kFewProducts = []<int... t>(std::integer_sequence<int, t...>) {
  return std::array<FewProducts, sizeof...(t)>{
      FewKernel<shape, fits, t + int{kMinFewTile}>::run...};
}
(std::make_integer_sequence<int, int{kFewTile - kMinFewTile + 1}>{});

/// Products of T tokens and weights that are decoded, transposed and multiplied in registers.
/// Decoding wants the shuffles' pipes and products the multipliers': the processor does the former
/// of some columns while it still does the latter of those before.
template <DType type, int T>
class FewAtOnce {
  using Decoder = FewDecoder<type>;
  static constexpr FewShape kShape = Decoder::kShape;
  static constexpr int kParts = Decoder::kBlockValues / 32;
  static constexpr int kColumns = kShape.group < 32 || kShape.scales == 16 ? 16 : 32;  ///< of a sum
  using Steps = FewSteps<kShape, Decoder::kFits, T>;
  using Sums = typename Steps::Sums;

 public:
  /// total[t] += the products of the block at `offset` of the rows and token t, from column k of x
  /// on.
  CRIA_INLINE static void add_block(const typename Decoder::Rows& rows, std::size_t offset,
                                    const FewToken* x, std::size_t k, const std::byte* far,
                                    typename Steps::Totals& total) {
    FewScales scales;
    Decoder::scales(rows, offset, 0, scales);
    [[maybe_unused]] Sums block;
    if constexpr (kShape.group == 256) Steps::begin_block(x, block);
    Decoder::weights(rows, offset, [&](std::size_t j, const auto& w0, const auto& w1) CRIA_INLINE {
      fetch(rows, offset, far, j, k / Decoder::kBlockValues);
      if constexpr (kShape.group == 256 && kShape.scales == 0) {
        dot(w0, x, 32 * j, block);
        dot(w1, x, 32 * j + 16, block);
        pin(block[0][0]);
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
    if constexpr (kShape.group == 256) Steps::add_block(block, only(scales), x, total);
  }

 private:
  CRIA_INLINE static auto only(const FewScales& scales) {
    return [&scales](int /*register*/) CRIA_INLINE -> const FewScales& { return scales; };
  }
  CRIA_INLINE static void dot(const __m512i (&w)[4], const FewToken* x, std::size_t column,
                              Sums& sums) {
    unroll<4>([&](auto c) CRIA_INLINE { Steps::dot({w[c]}, x, column + 4 * c, sums); });
  }
  /// i: which sums of the block.
  CRIA_INLINE static void add_sums(const Sums& sums, const FewScales& scales, std::size_t i,
                                   const FewToken* x, [[maybe_unused]] std::size_t k,
                                   [[maybe_unused]] Sums& block,
                                   [[maybe_unused]] typename Steps::Totals& total) {
    if constexpr (kShape.group == 256) {
      Steps::add_scaled(sums, only(scales), i, block);
    } else {
      Steps::add_group(sums, only(scales), i, x, k / kShape.group + i, total);
      pin(total[0][0]);  // or all prefetches of the block follow each other
    }
  }
  /// What each row wants soon, of blocks much shorter than a line from a quarter or half of the
  /// rows at a time.
  CRIA_INLINE static void fetch(const typename Decoder::Rows& rows, std::size_t offset,
                                const std::byte* far, std::size_t j,
                                [[maybe_unused]] std::size_t block) {
    fetch_far<kFewRows * Decoder::kBytes, kParts>(far, static_cast<int>(j));
    constexpr std::size_t kEvery = kParts > 1              ? 1
                                   : Decoder::kBytes <= 18 ? 4
                                   : Decoder::kBytes <= 32 ? 2
                                                           : 1;
    if constexpr (kEvery > 1) {
      const std::byte* const* const some = rows.at + kFewRows / kEvery * (block % kEvery);
      for (std::size_t r = 0; r < kFewRows / kEvery; ++r)
        __builtin_prefetch(some[r] + offset + 128, 0, 3);
    } else {
      for (std::size_t r = j * kFewRows / kParts; r < (j + 1) * kFewRows / kParts; ++r)
        fetch_near<Decoder::kBytes>(rows.at[r] + offset);
    }
  }
};

}  // namespace cria
