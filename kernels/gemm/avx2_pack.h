// Packing for the GEMM of AVX2: eight rows at a time into its panel.
#pragma once

#include "kernels/gemm/avx2.h"
#include "kernels/gemm/columns256.h"
#include "kernels/gemm/pack.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/simd/avx2.h"

namespace cria {

template <DType type>
requires(!LaneType<RowLanes<Avx2>, type>::kFull) class PanelPacker<Avx2, type> {
  using V = RowLanes<Avx2>;
  using W = LaneType<V, type>;
  using Vec = typename V::Vec;
  using Kernel = GemmKernel<Avx2>;
  static constexpr PanelShape kShape = panel_shape<Avx2, type>();
  static constexpr std::size_t kBytes = W::kBytes;
  static constexpr std::size_t kBlockValues = Format<type>::kBlockValues;
  static_assert(kShape.bytes == PanelBytes::Weights && kShape.zero == W::kZero);

 public:
  static constexpr bool kFetches = true;

  /// Rows [row, row + n_rows) and up to 256 columns from k on; the last row is repeated to fill the
  /// panel. far: as much as they, fetched meanwhile, as are the blocks after the next.
  static void pack(const MatMulJob& job, std::size_t row, std::size_t n_rows, std::size_t k,
                   const std::byte* far, Panel& panel) {
    const std::size_t n_blocks = std::min(kGemmCols, job.cols - k) / kBlockValues;
    for (std::size_t lane = 0; lane < kGemmRows; lane += kRowGroup) {
      const std::byte* rows[kRowGroup];
      for (std::size_t i = 0; i < kRowGroup; ++i)
        rows[i] = job.weights + (row + std::min(lane + i, n_rows - 1)) * job.row_bytes;
      for (std::size_t b = 0; b < n_blocks; ++b, far += kRowGroup * kBytes)
        pack_block(rows, kHeaderBytes<type> + k / kBlockValues * kBytes + b * kBytes, b, lane, far,
                   panel);
    }
  }

 private:
  CRIA_FLATTEN static void pack_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      std::size_t b, std::size_t lane, const std::byte* far,
                                      Panel& panel) {
    for (const std::byte* row : rows) fetch_near<kBytes>(row + offset);
    if constexpr (W::kSuper) pack_scales(rows, offset, lane, panel);
    auto* const to = panel.q[0] + b * kBlockValues / 4;
    decode_columns<Avx2, type>(rows, offset, far, [&](std::size_t k, Vec v) CRIA_INLINE {
      Kernel::store(to[k][lane], v);
    });
    pack_floats<V, type>(rows, offset, b, lane, panel);
  }

  CRIA_INLINE static void pack_scales(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      std::size_t lane, Panel& panel) {
    pairs_of_rows<Avx2, type>(
        rows, offset,
        [&](int i, Vec pair) CRIA_INLINE { Kernel::store_scales(panel, i, lane, pair); },
        [&](int i, Vec pair)
            CRIA_INLINE { Kernel::template store_mins<W::kScales>(panel, i, lane, pair); });
  }
};

}  // namespace cria
