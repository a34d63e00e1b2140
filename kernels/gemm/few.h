// Products of a few tokens, of which a GEMV would decode the weights more than once and a GEMM would pad: sixteen
// rows at a time, walked along like those of a GEMV so that memory is read in long streams.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/gemm/few_products.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"

namespace cria {

/// A MatMulFn for at most kFewTokens tokens.
template <DType type>
void few_tokens(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  using Packer = FewPacker<type>;
  constexpr FewShape kShape = Packer::kShape;
  constexpr std::size_t kBlockValues = Format<type>::kBlockValues, kBlocks = kGemmCols / kBlockValues,
                        kBytes = LaneType<RowLanes<Avx512>, type>::kBytes;
  // Types of groups have no integer scales; what tells them apart is whether they have m.
  constexpr bool kGroups = kShape.group < 256, kHasMin = Format<type>::kTraits.has_min;
  constexpr int kScales = kGroups ? 0 : kShape.scales, kMins = kGroups ? int{kHasMin} : kShape.mins;
  constexpr auto& kernels = kFewProducts<kShape.group, kScales, Packer::kFits, kMins>;
  const std::size_t n = job.x->n_tokens, n_tiles = (n + kFewTile - 1) / kFewTile;
  auto* const tokens = reinterpret_cast<FewToken*>(scratch);
  lay_out_tokens(*job.x, kShape, tokens);
  FewPanel panel;
  alignas(64) float acc[kFewTokens][kFewRows];
  for (std::size_t r = row_begin; r < row_end; r += kFewRows) {
    const std::size_t n_rows = std::min(kFewRows, row_end - r);
    const typename Packer::Rows rows(job, r, n_rows);
    const std::byte* const beside = fetched_beside(rows.at[0], kFewRows * job.row_bytes);
    std::memset(acc, 0, n * sizeof acc[0]);
    for (std::size_t k = 0; k < job.cols; k += kGemmCols) {
      const std::size_t cols = std::min(kGemmCols, job.cols - k), blocks = cols / kBlockValues;
      const std::size_t offset = kHeaderBytes<type> + k / kBlockValues * kBytes;
      const FewAhead ahead = {beside + k / kBlockValues * kBytes * kFewRows, kBlocks * kBytes * kFewRows / 64,
                              rows.at, offset + 2 * kBlocks * kBytes, kBlocks * kBytes};
      for (std::size_t b = 0; b < blocks; ++b) Packer::pack(rows, offset + b * kBytes, b, panel, ahead);
      const FewToken* const x = tokens + k / kGemmCols * n;
      for (std::size_t i = 0; i < n_tiles; ++i) {  // as equal as can be
        const std::size_t t = n * i / n_tiles, end = n * (i + 1) / n_tiles;
        kernels[end - t - 1](panel, x + t, cols / kShape.group, t == 0 ? ahead : FewAhead{}, acc + t);
      }
    }
    for (std::size_t t = 0; t < n; ++t) {
      const std::size_t at = t * job.out_stride + r;
      for (std::size_t i = 0; i < n_rows; ++i)
        job.out[at + i] = job.residual ? job.residual[at + i] + acc[t][i] : acc[t][i];
    }
  }
}

/// Of a type of integers in blocks, else null.
inline MatMulFn few_kernel_of(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return few_tokens<t>;
    return nullptr;
  });
}

}  // namespace cria
