// The small-batch GEMM of AVX2 and AVX-VNNI, for token counts for which a GEMV would unpack the
// weights more than once and a GEMM would pad. Sixteen rows are unpacked at a time into a panel
// that stays in L1. Memory is read in order, as by the GEMV.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "kernels/formats/formats.h"
#include "kernels/gemm/columns256.h"
#include "kernels/gemm/pack.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/small256_products.h"
#include "kernels/kernels.h"
#include "kernels/lanes/iq.h"
#include "kernels/lanes/iq4.h"
#include "kernels/rows/activations.h"
#include "kernels/simd/avx2.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Packs the activations of the small-batch GEMM.

/// Two int16, each of which may have wrapped around.
constexpr std::int32_t two_int16(int low, int high) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(low) & 0xFFFF) |
                                   static_cast<std::uint32_t>(high) << 16);
}

/// -zero times the sums of columns 4i, 4i + 1 and of columns 4i + 2, 4i + 3, as the two int16 of a
/// sum take them.
template <int columns, int zero>
CRIA_INLINE inline std::int32_t start_of_sums(const std::int8_t* q) {
  __m128i sum = _mm_setzero_si128();
#pragma GCC unroll 16
  for (int i = 0; i < columns; i += 16) {
    const auto* const p = reinterpret_cast<const __m128i*>(q + i);
    const __m128i v = columns == 8 ? _mm_loadl_epi64(p) : _mm_loadu_si128(p);
    sum = _mm_add_epi16(sum, _mm_maddubs_epi16(_mm_set1_epi8(1), v));
  }
  sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi16(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(_mm_mullo_epi16(sum, _mm_set1_epi16(-zero)));
}

/// The sum of n columns of a token from `column` on.
template <Small256Shape shape, int n>
CRIA_INLINE inline int sum_of_columns(const Activations& x, std::size_t token, std::size_t column) {
  constexpr std::size_t kPerSum = shape.group == 32 ? 32 : 16;
  const std::int16_t* const sum = x.sum + (token * x.cols + column) / kPerSum;
  return std::accumulate(sum, sum + n / kPerSum, 0);
}

/// Place t of a tile: `cols` columns from k on of `token`.
template <Small256Shape shape>
void pack_tile_token(const Activations& x, std::size_t token, std::size_t k, std::size_t cols,
                     std::size_t t, TokenTile& out) {
  constexpr int kColumns = 4 * shape.in_one_run();
  const std::int8_t* const q = x.q + token * x.q_stride() + k;
  if (cols == kGemmCols)
    std::memcpy(out.q[t], q, kGemmCols);
  else
    std::memcpy(out.q[t], q, cols);
  if constexpr (shape.centred) {
    for (std::size_t i = 0; i < cols / kColumns; ++i) {
      if constexpr (shape.in_fours())
        out.start[i][t] = -shape.zero * sum_of_columns<shape, kColumns>(x, token, k + kColumns * i);
      else
        out.start[i][t] = start_of_sums<kColumns, shape.zero>(q + kColumns * i);
    }
  }
  const std::size_t n_groups = cols / shape.group, group = (token * x.cols + k) / shape.group;
  for (std::size_t i = 0; i < n_groups; ++i) out.d[i][t] = x.d[group + i];
  if constexpr (shape.groups() && shape.mins != 0)
    for (std::size_t i = 0; i < n_groups; ++i)
      out.d_sum[i][t] = x.d[group + i] * static_cast<float>(x.sum[group + i]);
  if constexpr (shape.pairs() != 0) {
    const std::int16_t* const sum = x.sum + (token * x.cols + k) / 16;
    for (int i = 0; i < shape.pairs(); ++i)
      out.pairs[i][t] = shape.pairs() == 8 ? two_int16(sum[2 * i], sum[2 * i + 1])
                                           : two_int16(sum[4 * i] + sum[4 * i + 1],
                                                       sum[4 * i + 2] + sum[4 * i + 3]);
  }
}

/// Fills TokenTile[block of 256 columns][tile] with tokens [t0, t1) of all: as few tiles as can be,
/// and as equal.
template <Small256Shape shape>
void pack_tiles(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
  auto* const tiles = reinterpret_cast<TokenTile*>(to);
  const std::size_t n = x.n_tokens, n_tiles = token_tiles(n);
  for (std::size_t i = 0; i < n_tiles; ++i) {
    const std::size_t first = n * i / n_tiles, end = n * (i + 1) / n_tiles;
    for (std::size_t t = std::max(first, t0); t < std::min(end, t1); ++t)
      for (std::size_t k = 0; k < x.cols; k += kGemmCols)
        pack_tile_token<shape>(x, t, k, std::min(kGemmCols, x.cols - k), t - first,
                               tiles[k / kGemmCols * n_tiles + i]);
  }
}

/// Decodes eight rows into half of a panel.
template <class Isa, DType type>
class RowPacker {
  using V = RowLanes<Isa>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  using Transpose = Transpose256<Isa>;
  static constexpr DecodeTraits kTraits = Format<type>::kTraits;

  static constexpr bool kInFours = requires { &Dot256<Isa>::bytes; };
  static constexpr int kMost =
      std::max(int{W::kZero}, W::kMax - W::kZero);  ///< largest magnitude of a weight

  static constexpr Small256Shape shape() {
    Small256Shape s = {static_cast<int>(Format<type>::kGroupValues),
                       W::kFull ? TileSums::Full : TileSums::Int16,
                       W::kZero,
                       false,
                       1,
                       W::kScales,
                       kTraits.has_min ? W::kSuper ? W::kScales : 1 : 0};
    if (kInFours) {
      s.sums = 4 * s.steps() * 127 * kMost <= 32767 ? TileSums::Shorts : TileSums::Dwords;
      s.centred = W::kZero != 0;
      return s;
    }
    const auto fit = [](int max) {
      return static_cast<int>(std::bit_floor(32767U / (2 * 127U * max)));
    };
    if (W::kFull) return s;
    s.run = fit(W::kMax);
    const int centred = fit(kMost);
    if (W::kZero != 0 && (centred >= s.steps() || centred > s.run))
      s.centred = true, s.run = centred;
    return s;
  }

 public:
  static constexpr std::size_t kBytes = W::kBytes, kBlockValues = Format<type>::kBlockValues;
  static constexpr Small256Shape kShape = shape();
  static_assert(kInFours || W::kFull || 2 * W::kMax * 127 <= 32767);
  static_assert(kShape.zero == 0 || kShape.centred || kShape.pairs() != 0);
  static_assert(kShape.zero == 0 || kShape.centred || kShape.mins == 0);

  /// Unpacks the block at `offset` of the rows. It is the b-th of the panel, in whose rows from
  /// `lane` on it is stored. far: address to prefetch.
  CRIA_FLATTEN static void pack(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                std::size_t b, std::size_t lane, const std::byte* far,
                                RowPanel& panel) {
    auto* const to = panel.q + b * kBlockValues / 4;
    decode_columns<Isa, type>(rows, offset, far, [&](std::size_t k, Vec v) CRIA_INLINE {
      Transpose::store(to[k][lane], v);
    });
    for (const std::byte* row : rows) prefetch_near<kBytes>(row + offset);
    if constexpr (W::kSuper) pack_scales(rows, offset, lane, panel);
    pack_floats<V, type>(rows, offset, b, lane, panel);
  }

 private:
  CRIA_INLINE static void pack_scales(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      std::size_t lane, RowPanel& panel) {
    pairs_of_rows<Isa, type>(
        rows, offset,
        [&](int i, Vec pair) CRIA_INLINE {
          TileDots<kShape, 1>::put_scales(pair, panel.scale[2 * i] + lane,
                                          panel.scale[2 * i + 1] + lane);
          if constexpr (kShape.pairs() != 0 && kShape.mins == 0)
            Transpose::store(panel.pairs[i] + lane, V::mul16(pair, V::splat16(kShape.zero)));
        },
        [&](int i, Vec pair) CRIA_INLINE { Transpose::store(panel.pairs[i] + lane, pair); });
  }
};

/// Up to sixteen rows' products with the tokens of a tile, of which `first` is the first.
template <class Isa>
void put_tile(const MatMulJob& job, std::size_t row, std::size_t n_rows, std::size_t first,
              std::size_t n_tokens, const float (*acc)[kPanelRows]) {
  for (std::size_t t = 0; t < n_tokens; ++t) {
    const std::size_t at = (first + t) * job.out_stride + row;
    for (std::size_t r = 0; r < n_rows; ++r)
      job.out[at + r] = job.residual ? job.residual[at + r] + acc[t][r] : acc[t][r];
  }
}

/// A MatMulFn for up to kTiledTokens tokens.
template <class Isa, DType type>
void small256_gemm(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                   std::byte* scratch) {
  using Packer = RowPacker<Isa, type>;
  constexpr Small256Shape kShape = Packer::kShape;
  constexpr std::size_t kBlockValues = Packer::kBlockValues, kBytes = Packer::kBytes;
  constexpr auto& kernels = kTileProducts<kShape>;
  if (job.packed == nullptr) pack_tiles<kShape>(*job.x, 0, job.x->n_tokens, scratch);
  const auto* const tiles =
      reinterpret_cast<const TokenTile*>(job.packed != nullptr ? job.packed : scratch);
  const std::size_t n = job.x->n_tokens, n_tiles = token_tiles(n);
  const auto first = [&](std::size_t tile) { return n * tile / n_tiles; };
  const std::byte* const end = job.weights + row_end * job.row_bytes;
  RowPanel panel;
  alignas(64) float acc[token_tiles(kTiledTokens)][kTileTokens][kPanelRows];
  for (std::size_t r = row_begin; r < row_end; r += kPanelRows) {
    const std::size_t n_rows = std::min(kPanelRows, row_end - r);
    const std::byte* rows[kHalves][kRowGroup];
    for (std::size_t i = 0; i < kPanelRows; ++i)
      rows[i / kRowGroup][i % kRowGroup] =
          job.weights + (r + std::min(i, n_rows - 1)) * job.row_bytes;
    const std::byte* far =
        prefetch_address(rows[0][0], kPanelRows * job.row_bytes, end, job.next_weights);
    std::size_t offset = kHeaderBytes<type>;
    const TokenTile* x = tiles;
    std::memset(acc, 0, n_tiles * sizeof acc[0]);
    for (std::size_t k = 0; k < job.cols; k += kGemmCols, x += n_tiles) {
      const std::size_t cols = std::min(kGemmCols, job.cols - k);
      for (std::size_t b = 0; b < cols / kBlockValues; ++b, offset += kBytes)
        for (std::size_t h = 0; h < kHalves; ++h, far += kRowGroup * kBytes)
          Packer::pack(rows[h], offset, b, h * kRowGroup, far, panel);
      for (std::size_t i = 0; i < n_tiles; ++i)
        kernels[first(i + 1) - first(i) - 1](panel, x[i], cols / kShape.group, acc[i]);
    }
    for (std::size_t i = 0; i < n_tiles; ++i)
      put_tile<Isa>(job, r, n_rows, first(i), first(i + 1) - first(i), acc[i]);
  }
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria

namespace cria {

/// The small-batch GEMM of a type of integers in blocks, else null. Instantiated by
/// isa/NAME_small.cpp or NAME_gemm.cpp.
template <class Isa>
MatMulFn small_gemm_kernel(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return small256_gemm<Isa, t>;
    return nullptr;
  });
}
template <class Isa>
PackActivations small_gemm_packing(DType type) {
  return with_dtype(type, [](auto t) -> PackActivations {
    if constexpr (is_integer(Format<t>::kClass))
      return {pack_tiles<RowPacker<Isa, t>::kShape>,
              [](std::size_t n, std::size_t cols) { return token_tiles_bytes(n, cols); }};
    return {};
  });
}

}  // namespace cria
