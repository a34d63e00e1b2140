// Products of a few tokens on AVX2 and AVX-VNNI, of which a GEMV would decode the weights more than
// once and a GEMM would pad: sixteen rows at a time, walked along like those of a GEMV so that
// memory is read in order, and decoded into a panel that stays in the first-level cache.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/formats/formats.h"
#include "kernels/gemm/columns256.h"
#include "kernels/gemm/few256_layout.h"
#include "kernels/gemm/few256_products.h"
#include "kernels/gemm/pack.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"
#include "kernels/lanes/lanes.h"
#include "kernels/simd/avx2.h"

namespace cria {

/// Decodes eight rows into half of a panel.
template <class Isa, DType type>
class RowPacker {
  using V = RowLanes<Isa>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  using Transpose = Transpose256<Isa>;
  static constexpr DecodeTraits kTraits = Format<type>::kTraits;

  static constexpr bool kInFours = requires { &Dot256<Isa>::bytes; };
  static constexpr int kMost = std::max(int{W::kZero}, W::kMax - W::kZero);  ///< of a weight

  static constexpr FewRowsShape shape() {
    FewRowsShape s = {static_cast<int>(Format<type>::kGroupValues),
                      W::kFull ? TileSums::Full : TileSums::Words,
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
  static constexpr FewRowsShape kShape = shape();
  static_assert(kInFours || W::kFull || 2 * W::kMax * 127 <= 32767);
  static_assert(kShape.zero == 0 || kShape.centred || kShape.pairs() != 0);
  static_assert(kShape.zero == 0 || kShape.centred || kShape.mins == 0);

  /// The block at `offset` of the rows, which is the b-th of the panel, whose rows from `lane` on
  /// they are. far: as much as it, fetched meanwhile.
  CRIA_FLATTEN static void pack(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                std::size_t b, std::size_t lane, const std::byte* far,
                                RowPanel& panel) {
    auto* const to = panel.q + b * kBlockValues / 4;
    decode_columns<Isa, type>(rows, offset, far, [&](std::size_t k, Vec v) CRIA_INLINE {
      Transpose::store(to[k][lane], v);
    });
    for (const std::byte* row : rows) fetch_near<kBytes>(row + offset);
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
void few_rows(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
              std::byte* scratch) {
  using Packer = RowPacker<Isa, type>;
  constexpr FewRowsShape kShape = Packer::kShape;
  constexpr std::size_t kBlockValues = Packer::kBlockValues, kBytes = Packer::kBytes;
  constexpr auto& kernels = kTileProducts<kShape>;
  if (job.laid_out == nullptr) lay_out_tiles<kShape>(*job.x, 0, job.x->n_tokens, scratch);
  const auto* const tiles =
      reinterpret_cast<const TokenTile*>(job.laid_out != nullptr ? job.laid_out : scratch);
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
    const std::byte* far = fetched_beside(rows[0][0], kPanelRows * job.row_bytes, end, job.next);
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

/// Of types of integers in blocks. Instantiated by isa/NAME_few.cpp.
template <class Isa>
MatMulFn few_kernel(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return few_rows<Isa, t>;
    return nullptr;
  });
}
template <class Isa>
LayOut few_layout(DType type) {
  return with_dtype(type, [](auto t) -> LayOut {
    if constexpr (is_integer(Format<t>::kClass))
      return {lay_out_tiles<RowPacker<Isa, t>::kShape>,
              [](std::size_t n, std::size_t cols) { return token_tiles_bytes(n, cols); }};
    return {};
  });
}

}  // namespace cria
