// Packing for products of few tokens on AVX-512: a block of 256 columns of sixteen rows, decoded
// four registers side by side and transposed there, so that it is written once and stays in the
// first-level cache.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "kernels/formats/formats.h"
#include "kernels/gemm/avx512.h"
#include "kernels/gemm/few512_tokens.h"
#include "kernels/kernels.h"
#include "kernels/lanes/lanes.h"
#include "kernels/simd/avx512_parts.h"

namespace cria {

inline constexpr std::size_t kFewRows = 16;

/// What sixteen rows hold beside their weights, a lane for each row.
struct alignas(64) FewScales {
  std::int32_t scale[16][kFewRows];  ///< as the micro-kernel's multiplication wants them
  std::int32_t min[8][kFewRows];     ///< pairs of int16
  float d[16][kFewRows];             ///< Super256: [0]; else one per group of columns
  float m[8][kFewRows];              ///< dmin or m likewise
};

/// Sixteen rows of 256 columns.
struct alignas(64) FewPanel {
  std::uint8_t q[kGemmCols / 4][kFewRows][4];  ///< four consecutive columns of each row
  FewScales scales;
};

/// What is fetched while a panel is packed and multiplied, evenly, or memory idles for as long as
/// one of both takes: `lines` lines of what lies further on in memory, into the second-level cache,
/// and a block of each row, into the first.
struct FewAhead {
  const std::byte* far = nullptr;
  std::size_t lines = 0;
  const std::byte* const* rows = nullptr;
  std::size_t offset = 0, bytes = 0;

  /// Parts 0 … 7 while it is packed.
  [[gnu::always_inline]] void while_packed(std::size_t part) const { fetch_far(part); }
  /// Parts 0 … 7 while it is multiplied.
  [[gnu::always_inline]] void while_multiplied(std::size_t part) const {
    fetch_far(8 + part);
    for (std::size_t r = 2 * part; bytes != 0 && r < 2 * part + 2; ++r)
      for (std::size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(rows[r] + offset + at, 0, 3);
  }

 private:
  [[gnu::always_inline]] void fetch_far(std::size_t part) const {
    for (std::size_t i = part * lines / 16; i < (part + 1) * lines / 16; ++i)
      __builtin_prefetch(far + 64 * i, 0, 2);
  }
};

/// Sixteen rows of sixteen columns, transposed where they are loaded: part c holds columns 4c … 4c
/// + 3 of all rows. For decoders that do the same to every byte, which then meet half as many
/// vectors, or a quarter.
struct Avx512Columns {};
template <>
struct RowLanes<Avx512Columns> : RowLanes<Avx512Parts<4>> {
  using Rows = RowLanes<Avx512Parts<4>>;
  CRIA_INLINE static Vec load(RowPtr rows, std::size_t offset) {
    Vec v = Rows::load(rows, offset);
    GemmKernel<Avx512>::transpose(v.part);
    return v;
  }
  /// Eight columns of a, then those of b.
  CRIA_INLINE static Vec join_low(Vec a, Vec b) {
    return {{a.part[0], a.part[1], b.part[0], b.part[1]}};
  }
  CRIA_INLINE static Vec join_high(Vec a, Vec b) {
    return {{a.part[2], a.part[3], b.part[2], b.part[3]}};
  }
};

/// Fifth bits, four columns of all rows a register, in bit 4 of their bytes beside others that
/// add() drops. Of the four bytes from byte At of a block on; two rows' lie in a lane of 64 bits.
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
  /// Where the eight bits begin whose bit 4 is that of columns column … column + 3, modulo 64.
  static __m512i from(int column) {
    return _mm512_add_epi8(_mm512_set1_epi64(0x1F1E'1D1C'FFFE'FDFC),
                           _mm512_set1_epi8(static_cast<char>(column)));
  }
};

CRIA_INLINE inline __m512i few_low_words(__m512i v) {
  return _mm512_and_si512(v, _mm512_set1_epi32(0xFFFF));
}

/// Decodes blocks of sixteen rows, and transposes them.
template <DType type>
class FewDecoder {
  using One = RowLanes<Avx512>;
  using Four = RowLanes<Avx512Parts<4>>;
  using W = LaneType<One, type>;
  using V = std::conditional_t<kDecodesColumns<W>, RowLanes<Avx512Columns>, Four>;
  using Vec = typename Four::Vec;
  using Kernel = GemmKernel<Avx512>;
  static constexpr DecodeTraits kTraits = Format<type>::kTraits;
  static constexpr int kVecs = W::kScales == 16 ? 2 : 1;  ///< of scales

 public:
  static constexpr bool kColumns = kDecodesColumns<W>;
  static constexpr std::size_t kBytes = W::kBytes, kBlockValues = Format<type>::kBlockValues;
  static constexpr std::size_t kGroups = kBlockValues / Format<type>::kGroupValues;  ///< of a block
  static constexpr FewShape kShape = {static_cast<int>(Format<type>::kGroupValues), W::kZero,
                                      W::kScales, kTraits.has_min ? W::kSuper ? W::kScales : 1 : 0};
  /// Whether the sums that meet a scale fit in an int16.
  static constexpr bool kFits = W::kScales != 0 && 256 / (W::kScales == 0 ? 1 : W::kScales) * 127 *
                                                           std::max(W::kZero, W::kMax - W::kZero) <=
                                                       32767;

  /// Sixteen rows, in their order and as the four registers of a transposition take them: rows i, i
  /// + 4 … in the i-th.
  struct Rows {
    const std::byte* at[kFewRows];
    const std::byte* of_parts[4][kRowGroup];
    explicit Rows(const MatMulJob& job, std::size_t row, std::size_t n) {
      for (std::size_t i = 0; i < kFewRows; ++i) {
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

  /// What else the block says. first: its first group in `to`.
  CRIA_INLINE static void scales(const Rows& rows, std::size_t offset, std::size_t first,
                                 FewScales& to) {
    const std::byte* const* const parts = rows.of_parts[0];
    if constexpr (W::kScales != 0) {
      Vec scale[kVecs];
      LaneType<Four, type>::scales(parts, offset, scale);
      unroll<kVecs>([&](auto v) CRIA_INLINE {
        Kernel::transpose(scale[v].part);
        unroll<4>([&](auto c)
                      CRIA_INLINE { put_scales(scale[v].part[c], to.scale + 8 * v + 2 * c); });
      });
    }
    if constexpr (W::kSuper && kTraits.has_min) {
      Vec min[kVecs];
      LaneType<Four, type>::mins(parts, offset, min);
      unroll<kVecs>([&](auto v) CRIA_INLINE {
        Kernel::transpose(min[v].part);
        unroll<4>([&](auto c) CRIA_INLINE { Kernel::store(to.min[4 * v + c], min[v].part[c]); });
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
  CRIA_INLINE static void put_scales(__m512i pair, std::int32_t (*to)[kFewRows]) {
    if constexpr (kFits) {
      Kernel::store(to[0], few_low_words(pair));
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
CRIA_INLINE inline void few_pack(const typename FewDecoder<type>::Rows& rows, std::size_t offset,
                                 std::size_t b, FewPanel& panel, const FewAhead& ahead) {
  using Decoder = FewDecoder<type>;
  Decoder::weights(rows, offset, [&](std::size_t j, const auto& w0, const auto& w1) CRIA_INLINE {
    const std::size_t c = b * Decoder::kBlockValues / 32 + j;
    ahead.while_packed(c);
    unroll<4>([&](auto i) CRIA_INLINE {
      _mm512_store_si512(panel.q[8 * c + i], w0[i]);
      _mm512_store_si512(panel.q[8 * c + 4 + i], w1[i]);
    });
  });
  Decoder::scales(rows, offset, b * Decoder::kGroups, panel.scales);
}

}  // namespace cria
