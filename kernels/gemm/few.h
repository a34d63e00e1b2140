// Products of a few tokens, of which a GEMV would decode the weights more than once and a GEMM would pad: sixteen
// rows at a time, walked along like those of a GEMV so that memory is read in long streams.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/gemm/few_products.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"

namespace cria {

/// Sixteen rows' products with token t.
CRIA_INLINE inline void few_output(const MatMulJob& job, std::size_t row, std::size_t n_rows, std::size_t t,
                                   __m512 acc) {
  const auto present = static_cast<__mmask16>((1U << n_rows) - 1);
  const std::size_t at = t * job.out_stride + row;
  if (job.residual) acc = _mm512_add_ps(_mm512_maskz_loadu_ps(present, job.residual + at), acc);
  _mm512_mask_storeu_ps(job.out + at, present, acc);
}

/// At most T tokens, of T that are laid out, without a panel.
template <DType type, int T>
CRIA_FLATTEN void few_at_once(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                              const FewToken* tokens) {
  using Decoder = FewDecoder<type>;
  for (std::size_t r = row_begin; r < row_end; r += kFewRows) {
    const std::size_t n_rows = std::min(kFewRows, row_end - r);
    const typename Decoder::Rows rows(job, r, n_rows);
    const std::byte* far = fetched_beside(rows.at[0], kFewRows * job.row_bytes);
    std::size_t offset = kHeaderBytes<type>;
    __m512 total[T];
    unroll<T>([&](auto t) CRIA_INLINE { total[t] = _mm512_setzero_ps(); });
    for (std::size_t k = 0; k < job.cols; k += Decoder::kBlockValues) {
      FewAtOnce<type, T>::add_block(rows, offset, tokens + k / kGemmCols * T, k % kGemmCols, far, total);
      offset += Decoder::kBytes;
      far += kFewRows * Decoder::kBytes;
    }
    unroll<T>([&](auto t) CRIA_INLINE {
      if (t < job.x->n_tokens) few_output(job, r, n_rows, t, total[t]);
    });
  }
}

/// Any number of tokens from kLeastFewTile to kFewTokens.
template <DType type>
void few_by_panels(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, const FewToken* tokens) {
  using Decoder = FewDecoder<type>;
  constexpr FewShape kShape = Decoder::kShape;
  constexpr std::size_t kBlockValues = Decoder::kBlockValues, kBlocks = kGemmCols / kBlockValues,
                        kBytes = Decoder::kBytes;
  constexpr auto& kernels = kFewProducts<kShape, Decoder::kFits>;
  const std::size_t n = job.x->n_tokens, n_tiles = (n + kFewTile - 1) / kFewTile;
  FewPanel panel;
  alignas(64) float acc[kFewTokens][kFewRows];
  for (std::size_t r = row_begin; r < row_end; r += kFewRows) {
    const std::size_t n_rows = std::min(kFewRows, row_end - r);
    const typename Decoder::Rows rows(job, r, n_rows);
    const std::byte* const beside = fetched_beside(rows.at[0], kFewRows * job.row_bytes);
    std::memset(acc, 0, n * sizeof acc[0]);
    for (std::size_t k = 0; k < job.cols; k += kGemmCols) {
      const std::size_t cols = std::min(kGemmCols, job.cols - k), blocks = cols / kBlockValues;
      const std::size_t offset = kHeaderBytes<type> + k / kBlockValues * kBytes;
      const FewAhead ahead = {beside + k / kBlockValues * kBytes * kFewRows, kBlocks * kBytes * kFewRows / 64,
                              rows.at, offset + 2 * kBlocks * kBytes, kBlocks * kBytes};
      for (std::size_t b = 0; b < blocks; ++b) few_pack<type>(rows, offset + b * kBytes, b, panel, ahead);
      const FewToken* const x = tokens + k / kGemmCols * n;
      for (std::size_t i = 0; i < n_tiles; ++i) {  // as equal as can be
        const std::size_t t = n * i / n_tiles, end = n * (i + 1) / n_tiles;
        kernels[end - t - kLeastFewTile](panel, x + t, cols / kShape.group, t == 0 ? ahead : FewAhead{},
                                         acc + t);
      }
    }
    for (std::size_t t = 0; t < n; ++t) few_output(job, r, n_rows, t, _mm512_load_ps(acc[t]));
  }
}

/// A MatMulFn for kLeastFewTile to kFewTokens tokens. At once where decoding leaves registers for sums: codebooks
/// do not. Odd numbers of tokens are then rounded up, which costs less than code for each.
template <DType type>
void few_tokens(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  auto* const tokens = reinterpret_cast<FewToken*>(scratch);
  const Activations& x = *job.x;
  const bool at_once = FewDecoder<type>::kColumns && x.n_tokens <= kFewTile;
  lay_out_tokens<FewDecoder<type>::kShape>(x, at_once ? (x.n_tokens + 1) / 2 * 2 : x.n_tokens, tokens);
  if constexpr (FewDecoder<type>::kColumns) {
    constexpr auto run = std::array{few_at_once<type, 4>, few_at_once<type, 6>, few_at_once<type, 8>};
    if (at_once) return run[(x.n_tokens + 1) / 2 - 2](job, row_begin, row_end, tokens);
  }
  few_by_panels<type>(job, row_begin, row_end, tokens);
}

/// Of a type of integers in blocks, else null.
inline MatMulFn few_kernel_of(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return few_tokens<t>;
    return nullptr;
  });
}

}  // namespace cria
