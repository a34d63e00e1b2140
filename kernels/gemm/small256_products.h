// Micro-kernels of the small-batch GEMM of AVX2 and AVX-VNNI: 16 rows × exactly T tokens.
#pragma once

#include <immintrin.h>

#include <array>
#include <utility>

#include "kernels/gemm/packed_activations.h"
#include "kernels/simd/avx2.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Operands of the micro-kernels: a panel of sixteen rows, and the vectors of a tile.

inline constexpr std::size_t kHalves = 2;  ///< halves of a panel, eight rows each: one register
inline constexpr std::size_t kPanelRows =
    kHalves * kRowGroup;  ///< rows that share one reading of the activations

/// Sixteen rows of 256 columns, rows in lanes.
struct alignas(64) RowPanel {
  std::uint8_t q[kGemmCols / 4][kPanelRows][4];  ///< four consecutive columns of each row
  std::int32_t scale[16][kPanelRows];            ///< as TileDots wants them
  std::int32_t pairs[8][kPanelRows];             ///< mins, or scales: two int16
  float d[16][kPanelRows];                       ///< Super256: [0]; else one per group of columns
  float m[8][kPanelRows];                        ///< dmin or m, in the same order
};

/// The vectors of T tokens.
template <Small256Shape shape, int T>
struct TileVectors {
  using Half = __m256i[kHalves];
  using Sums = Half[T];

  /// Calls f(token, half) for every vector of a tile.
  template <class F>
  CRIA_INLINE static void each(F f) {
    unroll<T>([&](int t) CRIA_INLINE { unroll<kHalves>([&](int h) CRIA_INLINE { f(t, h); }); });
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
    unroll<kHalves>([&](int h) CRIA_INLINE { out[h] = load(rows + kRowGroup * h); });
  }
  CRIA_INLINE static void clear(Sums& sums) {
    each([&](auto t, auto h) CRIA_INLINE { sums[t][h] = _mm256_setzero_si256(); });
  }

  /// Operands of one scale or group: weights, and activations of the first token.
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

/// The dot products of a tile, specialised below.
/// - dot(at, sums): sums = the products of a scale or group
/// - add_scaled(at, scale, sums): sums += scale times these products
/// - add_pairs<first>(a, b, sum): sum = or += the products of pairs of int16
/// - put_scales(pair, even, odd): stores two scales of eight rows, given as pairs of int16
template <Small256Shape shape, int T>
struct TileDots;

// AVX2: bytes are multiplied in pairs and summed in int16. Sums begin with the negated contribution
// of the zero point. They may wrap on the way, since the results are small.

template <Small256Shape shape, int T>
requires(!shape.in_fours()) struct TileDots<shape, T> : TileVectors<shape, T> {
  using Vectors = TileVectors<shape, T>;
  using typename Vectors::Half, typename Vectors::Sums, typename Vectors::Place;

  /// Twice each, as factors of pairs of int16.
  CRIA_INLINE static void put_scales(__m256i pair, std::int32_t* even, std::int32_t* odd) {
    store(even, _mm256_blend_epi16(pair, _mm256_slli_epi32(pair, 16), 0xAA));
    store(odd, _mm256_blend_epi16(_mm256_srli_epi32(pair, 16), pair, 0xAA));
  }

  template <bool first>
  CRIA_INLINE static void add_pairs(__m256i a, __m256i b, __m256i& sum) {
    const __m256i product = _mm256_madd_epi16(a, b);
    sum = first ? product : _mm256_add_epi32(sum, product);
  }

  CRIA_INLINE static void dot(const Place& at, Sums& sums) {
    const __m256i one = _mm256_set1_epi16(1);
    scaled<true>(at, {one, one}, sums);
  }
  CRIA_INLINE static void add_scaled(const Place& at, const Half& scale, Sums& sums) {
    scaled<false>(at, scale, sums);
  }

 private:
  /// sums = or += scale * the products of what a scale or group covers.
  template <bool first>
  CRIA_INLINE static void scaled(const Place& at, const Half& scale, Sums& sums) {
    if constexpr (shape.sums == TileSums::Full) {
      if constexpr (first) Vectors::clear(sums);
      dot_full(at, scale, sums);
      return;
    }
    constexpr int kRun = shape.in_one_run(), kPart = kRun < 8 ? kRun : 8;
    unroll<shape.steps() / kRun>([&](auto run) CRIA_INLINE {
      Sums words;
      if constexpr (shape.centred)
        unroll<T>([&](int t) CRIA_INLINE {
          words[t][0] = words[t][1] = Vectors::splat(at.start + run * kTileTokens + t);
        });
#pragma GCC unroll 1
      for (std::size_t part = 0; part < kRun; part += kPart) {
        unroll<kPart>([&](auto i) CRIA_INLINE {
          constexpr bool kFirst = i == 0 && !shape.centred && kRun == kPart;
          multiply<kFirst>(at, run * kRun + part + i, words);
        });
      }
      Vectors::each([&](auto t, auto h) CRIA_INLINE {
        add_pairs<first && run == 0>(words[t][h], scale[h], sums[t][h]);
      });
    });
  }

  CRIA_INLINE static void store(void* p, __m256i v) {
    _mm256_store_si256(static_cast<__m256i*>(p), v);
  }

  CRIA_INLINE static void dot_full(const Place& at, const Half& scale, Sums& sums) {
    constexpr std::size_t kSteps = shape.steps();
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kSteps; ++i) {
      Half w;
      Vectors::load_halves(at.w[i], w);
      const Half magnitude = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
      unroll<T>([&](int t) CRIA_INLINE {
        const __m256i a = at.token(t, i);
        unroll<kHalves>([&](int h) CRIA_INLINE {
          add_pairs<false>(_mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(a, w[h])), scale[h],
                           sums[t][h]);
          pin(sums[t][h]);
        });
      });
    }
  }

  /// words = or += the products of four columns.
  template <bool first>
  CRIA_INLINE static void multiply(const Place& at, std::size_t step, Sums& words) {
    Half w;
    Vectors::load_halves(at.w[step], w);
    unroll<T>([&](int t) CRIA_INLINE {
      const __m256i a = at.token(t, step);
      Half p = {_mm256_maddubs_epi16(w[0], a), _mm256_maddubs_epi16(w[1], a)};
      pin_both(p);
      unroll<kHalves>([&](int h) CRIA_INLINE {
        words[t][h] = first ? p[h] : _mm256_add_epi16(words[t][h], p[h]);
      });
      if constexpr (!first) pin_both(words[t]);
    });
  }
  /// GCC would have multiplications and adds take turns, which Zen 3 does slower.
  CRIA_INLINE static void pin_both(Half& v) { asm("" : "+v"(v[0]), "+v"(v[1])); }
};

// AVX-VNNI: bytes are multiplied in fours and summed in int32, beginning with the negated
// contribution of the zero point.

#if defined(__AVXVNNI__)
template <Small256Shape shape, int T>
requires(shape.in_fours()) struct TileDots<shape, T> : TileVectors<shape, T> {
  using Vectors = TileVectors<shape, T>;
  using typename Vectors::Half, typename Vectors::Sums, typename Vectors::Place;
  using Dot = Dot256<AvxVnni>;
  static constexpr bool kShorts = shape.sums == TileSums::Shorts;

  /// Shorts: as the low of two factors, of which the high one, which meets the sign of a sum, is 0;
  /// else as int32.
  CRIA_INLINE static void put_scales(__m256i pair, std::int32_t* even, std::int32_t* odd) {
    if constexpr (kShorts) {
      store(even, _mm256_and_si256(pair, _mm256_set1_epi32(0xFFFF)));
      store(odd, _mm256_srli_epi32(pair, 16));
    } else {
      store(even, _mm256_srai_epi32(_mm256_slli_epi32(pair, 16), 16));
      store(odd, _mm256_srai_epi32(pair, 16));
    }
  }

  template <bool first>
  CRIA_INLINE static void add_pairs(__m256i a, __m256i b, __m256i& sum) {
    sum = Dot::pairs(first ? _mm256_setzero_si256() : sum, a, b);
  }

  /// sums = the products of what a scale or group covers.
  CRIA_INLINE static void dot(const Place& at, Sums& sums) {
    unroll<T>([&](int t) CRIA_INLINE {
      sums[t][0] = sums[t][1] =
          shape.zero == 0 ? _mm256_setzero_si256() : Vectors::splat(at.start + t);
    });
    constexpr std::size_t kSteps = shape.steps(), kPart = kSteps < 8 ? kSteps : 8;
#pragma GCC unroll 1
    for (std::size_t part = 0; part < kSteps; part += kPart)
      unroll<kPart>([&](int i) CRIA_INLINE { multiply(at, part + i, sums); });
  }

  /// sums += scale * these products.
  CRIA_INLINE static void add_scaled(const Place& at, const Half& scale, Sums& sums) {
    Sums products;
    dot(at, products);
    Vectors::each([&](auto t, auto h) CRIA_INLINE {
      if constexpr (kShorts)
        add_pairs<false>(products[t][h], scale[h], sums[t][h]);
      else
        sums[t][h] = _mm256_add_epi32(sums[t][h], _mm256_mullo_epi32(products[t][h], scale[h]));
    });
  }

 private:
  CRIA_INLINE static void store(void* p, __m256i v) {
    _mm256_store_si256(static_cast<__m256i*>(p), v);
  }

  CRIA_INLINE static void multiply(const Place& at, std::size_t step, Sums& sums) {
    Half w;
    Vectors::load_halves(at.w[step], w);
    unroll<T>([&](int t) CRIA_INLINE {
      const __m256i a = at.token(t, step);
      unroll<kHalves>([&](int h) CRIA_INLINE {
        sums[t][h] = Dot::bytes(sums[t][h], w[h], a);
        pin(sums[t][h]);
      });
    });
  }
};
#endif  // defined(__AVXVNNI__)

// The micro-kernels: 16 rows × exactly T tokens.

/// acc[token][row] += the products of a panel's first n_groups groups (Super256: its one) and a
/// tile.
using TileProducts = void (*)(const RowPanel& panel, const TokenTile& x, std::size_t n_groups,
                              float (*acc)[kPanelRows]);

/// Registers do not suffice for the int32 sums and the sums before a scale, so the former are kept
/// in memory.
template <Small256Shape shape, int T>
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
      unroll<T>([&](int t) CRIA_INLINE {
        const __m256i a = Dots::splat(&x.pairs[p][t]);
        unroll<kHalves>([&](int h) CRIA_INLINE {
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
template <Small256Shape shape>
inline constexpr auto kTileProducts = []<int... t>(std::integer_sequence<int, t...>) {
  return std::array<TileProducts, sizeof...(t)>{TileKernel<shape, t + 1>::run...};
}
(std::make_integer_sequence<int, int{kTileTokens}>{});

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
