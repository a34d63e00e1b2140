// The small-batch GEMM of AVX-512: its panels, its micro-kernels (32 rows, two panels, × exactly T
// tokens), and products of 16 rows × T tokens without a panel.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/formats/formats.h"
#include "kernels/gemm/avx512.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/kernels.h"
#include "kernels/lanes/iq.h"
#include "kernels/lanes/iq4.h"
#include "kernels/simd/avx512_parts.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Packing: a block of 256 columns of sixteen rows is decoded in four registers and transposed
// there, so that it is written once and stays in L1.

inline constexpr std::size_t kSmallRows = 16;

/// Scales of sixteen rows, a lane for each row.
struct alignas(64) SmallScales {
  std::int32_t scale[16][kSmallRows];  ///< as the micro-kernel's multiplication wants them
  std::int32_t min[8][kSmallRows];     ///< pairs of int16
  float d[16][kSmallRows];             ///< Super256: [0]; else one per group of columns
  float m[8][kSmallRows];              ///< dmin or m, in the same order
};

/// Sixteen rows of 256 columns.
struct alignas(64) SmallPanel {
  std::uint8_t q[kGemmCols / 4][kSmallRows][4];  ///< four consecutive columns of each row
  SmallScales scales;
};

/// Prefetches spread evenly over packing and multiplication, or memory would idle during one of
/// them: `lines` lines further on in memory into L2, and a block of each row into L1.
struct SmallPrefetch {
  const std::byte* far = nullptr;
  std::size_t lines = 0;
  const std::byte* const* rows = nullptr;
  std::size_t offset = 0, bytes = 0;

  /// Parts 0 … 7 while it is packed.
  [[gnu::always_inline]] void while_packed(std::size_t part) const { prefetch_far(part); }
  /// Parts 0 … 7 while it is multiplied.
  [[gnu::always_inline]] void while_multiplied(std::size_t part) const {
    prefetch_far(8 + part);
    for (std::size_t r = 2 * part; bytes != 0 && r < 2 * part + 2; ++r)
      for (std::size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(rows[r] + offset + at, 0, 3);
  }

 private:
  [[gnu::always_inline]] void prefetch_far(std::size_t part) const {
    for (std::size_t i = part * lines / 16; i < (part + 1) * lines / 16; ++i)
      __builtin_prefetch(far + 64 * i, 0, 2);
  }
};

/// Sixteen rows of sixteen columns, transposed when loaded: part c holds columns 4c … 4c + 3 of all
/// rows. For decoders that treat all bytes equally and then process half or a quarter of the
/// vectors.
struct Avx512Columns {};
template <>
struct RowLanes<Avx512Columns> : RowLanes<Avx512Parts<4>> {
  using Rows = RowLanes<Avx512Parts<4>>;
  CRIA_INLINE static Vec load(RowPtr rows, std::size_t offset) {
    Vec v = Rows::load(rows, offset);
    GemmKernel<Avx512>::transpose(v.part);
    return v;
  }
  /// The first (second) eight columns of a, then of b.
  CRIA_INLINE static Vec join_low(Vec a, Vec b) {
    return {{a.part[0], a.part[1], b.part[0], b.part[1]}};
  }
  CRIA_INLINE static Vec join_high(Vec a, Vec b) {
    return {{a.part[2], a.part[3], b.part[2], b.part[3]}};
  }
};

/// Fifth bits, four columns of all rows a register, in bit 4 of their bytes; add() drops the other
/// bits. They come from the four bytes from byte At of a block on; two rows share a lane of 64
/// bits.
template <int At>
struct FifthBits<RowLanes<Avx512Columns>, At> {
  using V = RowLanes<Avx512Columns>;
  V::Vec first, second;
  FifthBits(V::RowPtr rows, std::size_t offset) {
    const V::Vec head = V::load(rows, offset);
    __m512i bits = _mm512_srli_epi32(head.part[At / 4], 8 * (At % 4));
    if constexpr (At % 4 != 0)
      bits = _mm512_or_si512(bits, _mm512_slli_epi32(head.part[At / 4 + 1], 32 - 8 * (At % 4)));
    first =
        V::each([&](int c) CRIA_INLINE { return _mm512_multishift_epi64_epi8(from(4 * c), bits); });
    second = V::each(
        [&](int c) CRIA_INLINE { return _mm512_multishift_epi64_epi8(from(4 * c + 16), bits); });
  }
  static V::Vec add(V::Vec nibbles, V::Vec hi) {
    constexpr int kFirstOrBoth = 0xF8;  // a | (b & c)
    return V::each([&](int c) CRIA_INLINE {
      return _mm512_ternarylogic_epi32(nibbles.part[c], hi.part[c], _mm512_set1_epi8(16),
                                       kFirstOrBoth);
    });
  }

 private:
  /// Bit offsets, modulo 64, of the eight bits whose bit 4 belongs to columns column … column + 3.
  static __m512i from(int column) {
    return _mm512_add_epi8(_mm512_set1_epi64(0x1F1E'1D1C'FFFE'FDFC),
                           _mm512_set1_epi8(static_cast<char>(column)));
  }
};

CRIA_INLINE inline __m512i low_int16(__m512i v) {
  return _mm512_and_si512(v, _mm512_set1_epi32(0xFFFF));
}

/// Decodes blocks of sixteen rows, and transposes them.
template <DType type>
class SmallDecoder {
  using One = RowLanes<Avx512>;
  using Four = RowLanes<Avx512Parts<4>>;
  using W = LaneType<One, type>;
  using V = std::conditional_t<kDecodesColumns<W>, RowLanes<Avx512Columns>, Four>;
  using Vec = typename Four::Vec;
  using Kernel = GemmKernel<Avx512>;
  static constexpr DecodeTraits kTraits = Format<type>::kTraits;
  static constexpr int kVecs = W::kScales == 16 ? 2 : 1;  ///< vectors of scales

 public:
  static constexpr bool kColumns = kDecodesColumns<W>;
  static constexpr std::size_t kBytes = W::kBytes, kBlockValues = Format<type>::kBlockValues;
  static constexpr std::size_t kGroups =
      kBlockValues / Format<type>::kGroupValues;  ///< groups per block
  static constexpr SmallShape kShape = {static_cast<int>(Format<type>::kGroupValues), W::kZero,
                                        W::kScales,
                                        kTraits.has_min ? W::kSuper ? W::kScales : 1 : 0};
  /// True if the sums that are multiplied by a scale fit in int16.
  static constexpr bool kFits = W::kScales != 0 && 256 / (W::kScales == 0 ? 1 : W::kScales) * 127 *
                                                           std::max(W::kZero, W::kMax - W::kZero) <=
                                                       32767;

  /// Sixteen rows, in their order and as the four registers of a transposition take them: rows i, i
  /// + 4 … in the i-th.
  struct Rows {
    const std::byte* at[kSmallRows];
    const std::byte* of_parts[4][kRowGroup];
    explicit Rows(const MatMulJob& job, std::size_t row, std::size_t n) {
      for (std::size_t i = 0; i < kSmallRows; ++i) {
        at[i] = job.weights + (row + std::min(i, n - 1)) * job.row_bytes;
        of_parts[i % 4][2 * (i / 4)] = of_parts[i % 4][2 * (i / 4) + 1] = at[i];
      }
    }
  };

  /// f(j, w0, w1) for each 32 columns j of the block at `offset` of the rows: eight registers, each
  /// of four columns, w0 the first sixteen, w1 the others.
  template <class F>
  CRIA_INLINE static void weights(const Rows& rows, std::size_t offset, F&& f) {
    LaneType<V, type>::weights(rows.of_parts[0], offset, [&](int j, Vec w0, Vec w1) CRIA_INLINE {
      if constexpr (!kDecodesColumns<W>) {
        Kernel::transpose(w0.part);
        Kernel::transpose(w1.part);
      }
      f(static_cast<std::size_t>(j), w0.part, w1.part);
    });
  }

  /// Stores the scales of the block. first: its first group in `to`.
  CRIA_INLINE static void scales(const Rows& rows, std::size_t offset, std::size_t first,
                                 SmallScales& to) {
    const std::byte* const* const parts = rows.of_parts[0];
    if constexpr (W::kScales != 0) {
      Vec scale[kVecs];
      LaneType<Four, type>::scales(parts, offset, scale);
      unroll<kVecs>([&](int v) CRIA_INLINE {
        Kernel::transpose(scale[v].part);
        unroll<4>([&](int c)
                      CRIA_INLINE { put_scales(scale[v].part[c], to.scale + 8 * v + 2 * c); });
      });
    }
    if constexpr (W::kSuper && kTraits.has_min) {
      Vec min[kVecs];
      LaneType<Four, type>::mins(parts, offset, min);
      unroll<kVecs>([&](int v) CRIA_INLINE {
        Kernel::transpose(min[v].part);
        unroll<4>([&](int c) CRIA_INLINE { Kernel::store(to.min[4 * v + c], min[v].part[c]); });
      });
    }
    typename One::Float8 d[2][kGroups];
    for (std::size_t h = 0; h < 2; ++h) block_scales<One, W>(rows.at + h * kRowGroup, offset, d[h]);
    for (std::size_t i = 0; i < kGroups; ++i) put_floats(d[0][i], d[1][i], to.d[first + i]);
    if constexpr (kTraits.has_min) {
      const auto m = [&](std::size_t row) CRIA_INLINE {
        if constexpr (W::kSuper)
          return W::dmin(rows.at + row, offset);
        else
          return W::offset_of(rows.at + row, offset);
      };
      put_floats(m(0), m(kRowGroup), to.m[first]);
    }
  }

 private:
  /// In one piece: it is read as one.
  CRIA_INLINE static void put_floats(typename One::Float8 first, typename One::Float8 second,
                                     float* to) {
    _mm512_store_ps(to, _mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1));
  }
  /// Two int16 of each row as int32; where they fit, the high halves are zero.
  CRIA_INLINE static void put_scales(__m512i pair, std::int32_t (*to)[kSmallRows]) {
    if constexpr (kFits) {
      Kernel::store(to[0], low_int16(pair));
      Kernel::store(to[1], _mm512_srli_epi32(pair, 16));
    } else {
      Kernel::store(to[0], _mm512_srai_epi32(_mm512_slli_epi32(pair, 16), 16));
      Kernel::store(to[1], _mm512_srai_epi32(pair, 16));
    }
  }
};

/// Decodes the block of kBlockValues columns at `offset` of the rows, which is the b-th of the
/// panel.
template <DType type>
CRIA_INLINE inline void small_pack(const typename SmallDecoder<type>::Rows& rows,
                                   std::size_t offset, std::size_t b, SmallPanel& panel,
                                   const SmallPrefetch& ahead) {
  using Decoder = SmallDecoder<type>;
  Decoder::weights(rows, offset, [&](std::size_t j, const auto& w0, const auto& w1) CRIA_INLINE {
    const std::size_t c = b * Decoder::kBlockValues / 32 + j;
    ahead.while_packed(c);
    unroll<4>([&](int i) CRIA_INLINE {
      _mm512_store_si512(panel.q[8 * c + i], w0[i]);
      _mm512_store_si512(panel.q[8 * c + 4 + i], w1[i]);
    });
  });
  Decoder::scales(rows, offset, b * Decoder::kGroups, panel.scales);
}

/// The steps of a product of T tokens and R registers of rows.
template <SmallShape shape, bool fits, int T, int R = 1>
struct SmallSteps {
  using Weights = __m512i[R];
  using Sums = __m512i[R][T];
  using Totals = __m512[R][T];

  /// sums += the products of four columns. One register of rows multiplies the activations in
  /// memory; two share a broadcast.
  CRIA_INLINE static void dot(const Weights& w, const SmallToken* x, std::size_t column,
                              Sums& sums) {
    unroll<T>([&](int t) CRIA_INLINE {
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
        unroll<R>([&](int r)
                      CRIA_INLINE { sums[r][t] = _mm512_dpbusd_epi32(sums[r][t], w[r], same); });
      }
    });
  }
  CRIA_INLINE static void begin(const SmallToken* x, std::size_t j, Sums& sums) {
    each([&](auto r, auto t) CRIA_INLINE {
      sums[r][t] = shape.zero != 0 ? _mm512_set1_epi32(x[t].start[j]) : _mm512_setzero_si512();
    });
  }
  CRIA_INLINE static void begin_block(const SmallToken* x, Sums& block) {
    if constexpr (shape.scales == 0)
      begin(x, 0, block);
    else
      each([&](auto r, auto t) CRIA_INLINE { block[r][t] = _mm512_setzero_si512(); });
  }
  /// block += the sums times the j-th scale. scales(r): the SmallScales of register r of the rows.
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
  CRIA_INLINE static void add_block(const Sums& block, const Scales& scales, const SmallToken* x,
                                    Totals& total) {
    each([&](auto r, auto t) CRIA_INLINE {
      const __m512 d = _mm512_load_ps(scales(r).d[0]), da = _mm512_set1_ps(x[t].d[0]);
      total[r][t] =
          _mm512_fmadd_ps(_mm512_mul_ps(d, da), _mm512_cvtepi32_ps(block[r][t]), total[r][t]);
      if constexpr (shape.mins != 0) {
        __m512i mins = _mm512_setzero_si512();
        unroll<shape.mins / 2>([&](int p) CRIA_INLINE {
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
  /// total += the sums of a group: group i of the scales, b of the tokens.
  template <class Scales>
  CRIA_INLINE static void add_group(const Sums& sums, const Scales& scales, std::size_t i,
                                    const SmallToken* x, std::size_t b, Totals& total) {
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
    unroll<R>([&](int r) CRIA_INLINE { unroll<T>([&](int t) CRIA_INLINE { f(r, t); }); });
  }
};

// Micro-kernels: 32 rows (two panels) × exactly T tokens.

/// The panels that meet the same tokens, one for each register of rows.
inline constexpr int kSmallPanels = 2;
inline constexpr std::size_t kSmallPanelRows = kSmallPanels * kSmallRows;

/// acc[t] += the products of the panels' first n_groups groups (Super256: their one) and token t of
/// x.
using SmallProducts = void (*)(const SmallPanel* panels, const SmallToken* x, std::size_t n_groups,
                               const SmallPrefetch* ahead, float (*acc)[kSmallPanelRows]);

template <SmallShape shape, bool fits, int T>
class SmallKernel {
  using Steps = SmallSteps<shape, fits, T, kSmallPanels>;
  using Sums = typename Steps::Sums;
  using Totals = typename Steps::Totals;

 public:
  static void run(const SmallPanel* panels, const SmallToken* x, std::size_t n_groups,
                  const SmallPrefetch* ahead, float (*acc)[kSmallPanelRows]) {
    if constexpr (shape.group < 256)
      groups(panels, x, n_groups, ahead, acc);
    else
      super256(panels, x, ahead, acc);
  }

 private:
  CRIA_INLINE static void load(const float (*acc)[kSmallPanelRows], Totals& total) {
    Steps::each([&](auto r, auto t) CRIA_INLINE {
      total[r][t] = _mm512_load_ps(acc[t] + kSmallRows * static_cast<std::size_t>(r));
    });
  }
  CRIA_INLINE static void store(const Totals& total, float (*acc)[kSmallPanelRows]) {
    Steps::each([&](auto r, auto t) CRIA_INLINE {
      _mm512_store_ps(acc[t] + kSmallRows * static_cast<std::size_t>(r), total[r][t]);
    });
  }
  CRIA_INLINE static auto scales_of(const SmallPanel* panels) {
    return [panels](auto r) CRIA_INLINE -> const SmallScales& { return panels[r].scales; };
  }
  /// sums += the products of 4n columns.
  template <std::size_t n>
  CRIA_INLINE static void dot(const SmallPanel* panels, const SmallToken* x, std::size_t column,
                              Sums& sums) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < n; ++i) {
      typename Steps::Weights w;
      unroll<kSmallPanels>(
          [&](int r) CRIA_INLINE { w[r] = _mm512_load_si512(panels[r].q[column / 4 + i]); });
      Steps::dot(w, x, column + 4 * i, sums);
    }
  }
  CRIA_INLINE static void fetch(const SmallPrefetch* ahead, std::size_t part) {
    for (int r = 0; r < kSmallPanels; ++r) ahead[r].while_multiplied(part);
  }

  CRIA_INLINE static void super256(const SmallPanel* panels, const SmallToken* x,
                                   const SmallPrefetch* ahead, float (*acc)[kSmallPanelRows]) {
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

  CRIA_INLINE static void groups(const SmallPanel* panels, const SmallToken* x,
                                 std::size_t n_groups, const SmallPrefetch* ahead,
                                 float (*acc)[kSmallPanelRows]) {
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
inline constexpr std::size_t kMinSmallTile = 3, kMaxSmallTile = 6;
template <SmallShape shape, bool fits>
inline constexpr auto kSmallProducts = []<int... t>(std::integer_sequence<int, t...>) {
  return std::array<SmallProducts, sizeof...(t)>{
      SmallKernel<shape, fits, t + int{kMinSmallTile}>::run...};
}
(std::make_integer_sequence<int, int{kMaxSmallTile - kMinSmallTile + 1}>{});

/// Products of T tokens and weights that are decoded, transposed and multiplied in registers. The
/// processor overlaps the shuffles that decode columns with the products of earlier columns.
template <DType type, int T>
class SmallAtOnce {
  using Decoder = SmallDecoder<type>;
  static constexpr SmallShape kShape = Decoder::kShape;
  static constexpr int kParts = Decoder::kBlockValues / 32;
  /// Columns of a sum.
  static constexpr int kColumns = kShape.group < 32 || kShape.scales == 16 ? 16 : 32;
  using Steps = SmallSteps<kShape, Decoder::kFits, T>;
  using Sums = typename Steps::Sums;

 public:
  /// total[t] += the products of the block at `offset` of the rows and token t, from column k of x
  /// on.
  CRIA_INLINE static void add_block(const typename Decoder::Rows& rows, std::size_t offset,
                                    const SmallToken* x, std::size_t k, const std::byte* far,
                                    typename Steps::Totals& total) {
    SmallScales scales;
    Decoder::scales(rows, offset, 0, scales);
    [[maybe_unused]] Sums block;
    if constexpr (kShape.group == 256) Steps::begin_block(x, block);
    Decoder::weights(rows, offset, [&](std::size_t j, const auto& w0, const auto& w1) CRIA_INLINE {
      prefetch(rows, offset, far, j, k / Decoder::kBlockValues);
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
  CRIA_INLINE static auto only(const SmallScales& scales) {
    return [&scales](int /*register*/) CRIA_INLINE -> const SmallScales& { return scales; };
  }
  CRIA_INLINE static void dot(const __m512i (&w)[4], const SmallToken* x, std::size_t column,
                              Sums& sums) {
    unroll<4>([&](int c) CRIA_INLINE { Steps::dot({w[c]}, x, column + 4 * c, sums); });
  }
  /// Scales the block's sums number i.
  CRIA_INLINE static void add_sums(const Sums& sums, const SmallScales& scales, std::size_t i,
                                   const SmallToken* x, [[maybe_unused]] std::size_t k,
                                   [[maybe_unused]] Sums& block,
                                   [[maybe_unused]] typename Steps::Totals& total) {
    if constexpr (kShape.group == 256) {
      Steps::add_scaled(sums, only(scales), i, block);
    } else {
      Steps::add_group(sums, only(scales), i, x, k / kShape.group + i, total);
      pin(total[0][0]);  // or all prefetches of the block follow each other
    }
  }
  /// Prefetches far ahead, and the next blocks of each row into L1. Blocks much shorter than a line
  /// are prefetched for a quarter or half of the rows at a time.
  CRIA_INLINE static void prefetch(const typename Decoder::Rows& rows, std::size_t offset,
                                   const std::byte* far, std::size_t j,
                                   [[maybe_unused]] std::size_t block) {
    prefetch_far<kSmallRows * Decoder::kBytes, kParts>(far, static_cast<int>(j));
    constexpr std::size_t kEvery = kParts > 1              ? 1
                                   : Decoder::kBytes <= 18 ? 4
                                   : Decoder::kBytes <= 32 ? 2
                                                           : 1;
    if constexpr (kEvery > 1) {
      const std::byte* const* const some = rows.at + kSmallRows / kEvery * (block % kEvery);
      for (std::size_t r = 0; r < kSmallRows / kEvery; ++r)
        __builtin_prefetch(some[r] + offset + 128, 0, 3);
    } else {
      for (std::size_t r = j * kSmallRows / kParts; r < (j + 1) * kSmallRows / kParts; ++r)
        prefetch_near<Decoder::kBytes>(rows.at[r] + offset);
    }
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
