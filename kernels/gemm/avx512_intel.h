// The GEMM micro-kernel of AVX-512 for processors on which all arithmetic on zmm registers shares
// two ports (Intel): 16 rows × 15 tokens. The multiplication itself broadcasts the activations, and
// scales multiply the low int16 of a sum in place, so that few other instructions remain.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>

#include "kernels/gemm/avx512.h"
#include "kernels/gemm/avx512_tokens.h"
#include "kernels/gemm/panel.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <>
struct RowLanes<Avx512Intel> : RowLanes<Avx512> {};

/// Range of the sums that are multiplied by a scale: in int16 always, mostly or rarely.
enum class Sums16 : std::uint8_t { Always, Mostly, Rarely };
constexpr Sums16 sums16(PanelShape shape) {
  if (shape.scales == 0) return Sums16::Always;
  const int most = std::max(shape.zero, shape.max - shape.zero) * 127 * 256 / shape.scales;
  return most <= 32767 ? Sums16::Always : most <= 4 * 32767 ? Sums16::Mostly : Sums16::Rarely;
}
/// True if the sums of a token fit.
template <PanelShape shape>
bool fits_int16(const PackedToken& token) {
  if constexpr (shape.scales == 16)
    return std::max(shape.zero, shape.max - shape.zero) * token.more.most16 <= 32767;
  return shape.max * token.more.most32 <= 32767;
}

/// 16 rows × T tokens; fits: the sums that meet scales are int16.
template <PanelShape shape, int T, bool fits>
class IntelTile {
  using Sums = __m512i[T];
  using Acc = float[kGemmRows];

 public:
  /// acc[t] += the products of rows `lane` to lane + 15 of a panel and token t of x. (Not inlined:
  /// the registers are just enough.)
  [[gnu::noinline]] static void run(const PackedToken* x, const Starts* start, std::size_t cols,
                                    const Panel& panel, std::size_t lane, Acc* acc) {
    if constexpr (shape.groups())
      groups(x, start, cols / shape.group, panel, lane, acc);
    else
      super256(x, start, panel, lane, acc);
  }

 private:
  CRIA_INLINE static void zero(Sums& sums) {
    unroll<T>([&](int t) CRIA_INLINE { clear(sums[t]); });
  }
  /// Zero by an idiom that no port executes; left to itself GCC keeps a zero in a register that
  /// sums need.
  CRIA_INLINE static void clear(__m512i& v) { asm volatile("vpxord %x0, %x0, %x0" : "=v"(v)); }
  CRIA_INLINE static void begin(const Starts* start, std::size_t j, Sums& sums) {
    if constexpr (shape.zero == 0)
      zero(sums);
    else
      unroll<T>([&](int t) CRIA_INLINE { sums[t] = _mm512_set1_epi32(start[t][j]); });
  }
  /// sums += the products of 4n columns from row k of the panel on.
  template <std::size_t n>
  CRIA_INLINE static void dot(const std::uint8_t (*q)[kGemmRows][4], const PackedToken* x,
                              std::size_t column, Sums& sums) {
    unroll<n>([&](int i) CRIA_INLINE {
      const __m512i w = _mm512_load_si512(q[i]);
      unroll<T>([&](int t) CRIA_INLINE {
        using Four = const std::int8_t[4];
        // Clang captures nothing that only an asm names.
        __m512i& sum = sums[t];
        const __m512i& weights = w;
        Four& values = reinterpret_cast<Four&>(x[t].q[column + 4 * i]);
        asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(values));
      });
    });
  }

  CRIA_INLINE static void super256(const PackedToken* x, const Starts* start, const Panel& panel,
                                   std::size_t lane, Acc* acc) {
    const auto* const q =
        reinterpret_cast<const std::uint8_t(*)[kGemmRows][4]>(&panel.q[0][0][lane][0]);
    Sums sums, block;
    if constexpr (shape.scales == 0) {
      if constexpr (shape.bytes == PanelBytes::Halved)
        zero(block);
      else
        begin(start, 0, block);
#pragma GCC unroll 1
      for (std::size_t k = 0; k < kGemmCols / 4; k += 8) dot<8>(q + k, x, 4 * k, block);
      if constexpr (shape.bytes == PanelBytes::Halved) {
        unroll<T>([&](int t) CRIA_INLINE {
          block[t] = _mm512_add_epi32(_mm512_add_epi32(block[t], block[t]),
                                      _mm512_set1_epi32(start[t][0]));
        });
      }
    } else {
      constexpr std::size_t kStep = kGemmCols / 4 / shape.scales;
      const auto* const scales = reinterpret_cast<const std::byte*>(panel.scale[0] + lane);
      zero(block);
#pragma GCC unroll 1
      for (std::size_t j = 0; j < shape.scales; j += 2) {
        begin(start, j, sums);
        dot<kStep>(q + kStep * j, x, 4 * kStep * j, sums);
        const std::byte* const pair = scales + j / 2 * sizeof panel.scale[0];
        add_scaled(sums, scale(pair), block);
        begin(start, j + 1, sums);
        dot<kStep>(q + kStep * (j + 1), x, 4 * kStep * (j + 1), sums);
        add_scaled(sums, scale(pair + 2), block);
      }
    }
    add_block(x, panel, lane, block, sums, acc);
  }
  CRIA_INLINE static void add_scaled(const Sums& sums, __m512i scale, Sums& block) {
    unroll<T>([&](int t) CRIA_INLINE {
      block[t] = fits ? _mm512_dpwssd_epi32(block[t], sums[t], scale)
                      : _mm512_add_epi32(block[t], _mm512_mullo_epi32(sums[t], scale));
      pin(block[t]);
    });
  }
  /// The scale in the low half of every lane: alone, or as int32 for wider sums.
  CRIA_INLINE static __m512i scale(const std::byte* words) {
    const __m512i low = _mm512_maskz_loadu_epi16(0x55555555, words);
    return fits ? low : _mm512_srai_epi32(_mm512_slli_epi32(low, 16), 16);
  }

  CRIA_INLINE static void add_block(const PackedToken* x, const Panel& panel, std::size_t lane,
                                    Sums& block, Sums& mins, Acc* acc) {
    if constexpr (shape.mins != 0) {
      zero(mins);
      unroll<shape.mins / 2>([&](int p) CRIA_INLINE {
        const __m512i pair = _mm512_load_si512(panel.min[p] + lane);
        unroll<T>([&](int t) CRIA_INLINE {
          using Two = const std::int16_t[2];
          __m512i& sum = mins[t];
          const __m512i& of_rows = pair;
          Two& of_token = reinterpret_cast<Two&>(sums_of_mins<shape>(x[t])[2 * p]);
          asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(of_rows), "m"(of_token));
        });
      });
    }
    const __m512 d = _mm512_load_ps(panel.d[0] + lane);
    [[maybe_unused]] const __m512 m = _mm512_load_ps(panel.m[0] + lane);
    unroll<T>([&](int t) CRIA_INLINE {
      float* const to = acc[t] + lane;
      const __m512 da = _mm512_set1_ps(x[t].d[0]);
      __m512 sum =
          _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(block[t]), _mm512_load_ps(to));
      if constexpr (shape.mins != 0)
        sum = _mm512_fnmadd_ps(_mm512_mul_ps(m, da), _mm512_cvtepi32_ps(mins[t]), sum);
      _mm512_store_ps(to, sum);
    });
  }

  CRIA_INLINE static void groups(const PackedToken* x, const Starts* start, std::size_t n,
                                 const Panel& panel, std::size_t lane, Acc* acc) {
    constexpr std::size_t kRows = shape.group / 4;  // panel rows in a group
    const auto* const q =
        reinterpret_cast<const std::uint8_t(*)[kGemmRows][4]>(&panel.q[0][0][lane][0]);
    __m512 total[T];
    unroll<T>([&](int t) CRIA_INLINE { total[t] = _mm512_load_ps(acc[t] + lane); });
#pragma GCC unroll 1
    for (std::size_t b = 0; b < n; ++b) {
      Sums sums;
      begin(start, b, sums);
      dot<kRows>(q + kRows * b, x, shape.group * b, sums);
      const __m512 d = _mm512_load_ps(panel.d[b] + lane);
      unroll<T>([&](int t) CRIA_INLINE {
        const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x[t].d[b]));
        total[t] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(sums[t]), total[t]);
        if constexpr (shape.mins != 0)
          total[t] = _mm512_fmadd_ps(_mm512_load_ps(panel.m[b] + lane),
                                     _mm512_set1_ps(x[t].d_sum[b]), total[t]);
      });
    }
    unroll<T>([&](int t) CRIA_INLINE { _mm512_store_ps(acc[t] + lane, total[t]); });
  }
};

template <>
struct GemmKernel<Avx512Intel> {
  using Amd = GemmKernel<Avx512>;
  static constexpr std::size_t kTokens = 15, kPrefetchesPerPanel = kGemmRows / 16;
  static constexpr bool kSigned = Amd::kSigned, kSumsInt16 = Amd::kSumsInt16,
                        kHalfWeights = Amd::kHalfWeights;
  using Session = Amd::Session;

  static constexpr PanelBytes bytes(const DecodeTraits& t, bool full) {
    return Amd::bytes(t, full);
  }
  static constexpr int scaled_zero(const DecodeTraits& t) { return Amd::scaled_zero(t); }
  static void transpose(__m512i (&v)[4]) { Amd::transpose(v); }
  static void store(void* p, __m512i v) { Amd::store(p, v); }
  template <int n>
  static void store_mins(Panel& panel, std::size_t c, std::size_t lane, __m512i pair) {
    Amd::store_mins<n>(panel, c, lane, pair);
  }
  static void store_scales(Panel& panel, std::size_t c, std::size_t lane, __m512i pair) {
    Amd::store_scales(panel, c, lane, pair);
  }

  template <PanelShape shape>
  using Tokens = PackedTokens<ColumnOrder::Given, kTokens>;

  template <PanelShape shape>
  static void run(const typename Tokens<shape>::Slice& x, GemmScratch& s, std::size_t n_panels,
                  Ahead ahead) {
    Starts start[kTokens];
    for (std::size_t t = 0; t < x.n_tokens; t += kTokens) {
      const std::size_t n = std::min(kTokens, (x.n_tokens - t + 3) / 4 * 4);
      const PackedToken* const token = x.token + t;
      for (std::size_t i = 0; shape.zero != 0 && i < n; ++i) fill_starts<shape>(token[i], start[i]);
      const Tile tile = tile_of<shape>(token, n);
      for (std::size_t p = 0; p < n_panels; ++p) {
        for (std::size_t lane = 0; lane < kGemmRows; lane += 16) {
          ahead.fetch();
          tile(token, start, x.cols, s.panel[p], lane, s.acc[p] + t);
        }
      }
    }
  }

 private:
  using Tile = void (*)(const PackedToken*, const Starts*, std::size_t, const Panel&, std::size_t,
                        float (*)[kGemmRows]);
  template <PanelShape shape, bool fits>
  static constexpr auto kTiles =
      std::array{IntelTile<shape, 4, fits>::run, IntelTile<shape, 8, fits>::run,
                 IntelTile<shape, 12, fits>::run, IntelTile<shape, 15, fits>::run};

  template <PanelShape shape>
  static Tile tile_of(const PackedToken* x, std::size_t n) {
    constexpr Sums16 kSums = sums16(shape);
    const std::size_t which = (n - 1) / 4;
    if constexpr (kSums == Sums16::Mostly) {
      if (!std::all_of(x, x + n, fits_int16<shape>)) return kTiles<shape, false>[which];
    }
    return kTiles<shape, kSums != Sums16::Rarely>[which];
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
