// Products of a few tokens on AVX-512, of which a GEMV would decode the weights more than once and
// a GEMM would pad: sixteen rows at a time, walked along like those of a GEMV so that memory is
// read in long streams.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/formats/round.h"
#include "kernels/gemm/few512_products.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"

namespace cria {

/// Sixteen rows' products with token t.
CRIA_INLINE inline void few_output(const MatMulJob& job, std::size_t row, std::size_t n_rows,
                                   std::size_t t, __m512 acc) {
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
  const std::byte* const end = job.weights + row_end * job.row_bytes;
  for (std::size_t r = row_begin; r < row_end; r += kFewRows) {
    const std::size_t n_rows = std::min(kFewRows, row_end - r);
    const typename Decoder::Rows rows(job, r, n_rows);
    const std::byte* far = fetched_beside(rows.at[0], kFewRows * job.row_bytes, end, job.next);
    std::size_t offset = kHeaderBytes<type>;
    __m512 total[1][T];
    unroll<T>([&](auto t) CRIA_INLINE { total[0][t] = _mm512_setzero_ps(); });
    for (std::size_t k = 0; k < job.cols; k += Decoder::kBlockValues) {
      FewAtOnce<type, T>::add_block(rows, offset, tokens + k / kGemmCols * T, k % kGemmCols, far,
                                    total);
      offset += Decoder::kBytes;
      far += kFewRows * Decoder::kBytes;
    }
    unroll<T>([&](auto t) CRIA_INLINE {
      if (t < job.x->n_tokens) few_output(job, r, n_rows, t, total[0][t]);
    });
  }
}

/// Any number of tokens from kMinFewTile to kFewTokens.
template <DType type>
class FewByPanels {
  using Decoder = FewDecoder<type>;
  using Rows = typename Decoder::Rows;
  static constexpr FewShape kShape = Decoder::kShape;
  static constexpr std::size_t kBlockValues = Decoder::kBlockValues,
                               kBlocks = kGemmCols / kBlockValues, kBytes = Decoder::kBytes,
                               kPanelBytes = kBlocks * kBytes;
  /// How many panels ahead a row is fetched into the first-level cache, which has to hold them for
  /// 32 rows.
  static constexpr std::size_t kNear = kPanelBytes > 160 ? 1 : 2;

 public:
  FewByPanels(const MatMulJob& job, const FewToken* tokens) : job_(job), tokens_(tokens) {}

  void run(std::size_t row_begin, std::size_t row_end) {
    for (std::size_t r = row_begin; r < row_end; r += kFewPanelRows)
      together(r, std::min(kFewPanelRows, row_end - r), job_.weights + row_end * job_.row_bytes);
  }

 private:
  /// The panel's rows of n that begin with `row`; the first ones again where there are none.
  [[nodiscard]] Rows rows_of(std::size_t panel, std::size_t row, std::size_t n) const {
    const std::size_t first = panel * kFewRows < n ? panel * kFewRows : 0;
    return Rows(job_, row + first, std::min(kFewRows, n - first));
  }
  /// `end`: of all rows.
  CRIA_FLATTEN void together(std::size_t row, std::size_t n_rows, const std::byte* end) {
    const Rows rows[kFewPanels] = {rows_of(0, row, n_rows), rows_of(1, row, n_rows)};
    const std::size_t n = job_.x->n_tokens;
    const std::byte* far =
        fetched_beside(rows[0].at[0], kFewPanelRows * job_.row_bytes, end, job_.next);
    std::memset(acc_, 0, n * sizeof acc_[0]);
    for (std::size_t k = 0; k < job_.cols; k += kGemmCols, far += kPanelBytes * kFewPanelRows) {
      const std::size_t cols = std::min(kGemmCols, job_.cols - k),
                        offset = kHeaderBytes<type> + k / kBlockValues * kBytes;
      FewAhead ahead[kFewPanels];
      for (std::size_t p = 0; p < kFewPanels; ++p) {
        ahead[p] = {far + p * kPanelBytes * kFewRows, kPanelBytes * kFewRows / 64, rows[p].at,
                    offset + kNear * kPanelBytes, kPanelBytes};
        for (std::size_t b = 0; b < cols / kBlockValues; ++b)
          few_pack<type>(rows[p], offset + b * kBytes, b, panels_[p], ahead[p]);
      }
      multiply(tokens_ + k / kGemmCols * few_tokens_stride(n), cols, ahead);
    }
    for (std::size_t first = 0; first < n_rows; first += kFewRows)
      for (std::size_t t = 0; t < n; ++t)
        few_output(job_, row + first, std::min(kFewRows, n_rows - first), t,
                   _mm512_load_ps(acc_[t] + first));
  }
  /// Tiles of tokens as equal as can be.
  void multiply(const FewToken* x, std::size_t cols, const FewAhead* ahead) {
    constexpr auto& kernels = kFewProducts<kShape, Decoder::kFits>;
    static constexpr FewAhead kNothing[kFewPanels] = {};
    const std::size_t n = job_.x->n_tokens, n_tiles = divide_up(n, kFewTile);
    for (std::size_t i = 0; i < n_tiles; ++i) {
      const std::size_t t = n * i / n_tiles, end = n * (i + 1) / n_tiles;
      kernels[end - t - kMinFewTile](panels_, x + t, cols / kShape.group, t == 0 ? ahead : kNothing,
                                     acc_ + t);
    }
  }

  const MatMulJob& job_;
  const FewToken* tokens_;
  FewPanel panels_[kFewPanels];
  alignas(64) float acc_[kFewTokens][kFewPanelRows];
};

/// A MatMulFn for kMinFewTile to kFewTokens tokens. At once where decoding leaves registers for
/// sums: codebooks do not.
template <DType type>
void few_tokens(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                std::byte* scratch) {
  const std::size_t n = job.x->n_tokens;
  if (job.laid_out == nullptr) lay_out_few<FewDecoder<type>::kShape>(*job.x, 0, n, scratch);
  const auto* const tokens =
      reinterpret_cast<const FewToken*>(job.laid_out != nullptr ? job.laid_out : scratch);
  if constexpr (FewDecoder<type>::kColumns) {
    constexpr auto run =
        std::array{few_at_once<type, 4>, few_at_once<type, 6>, few_at_once<type, 8>};
    if (n <= kFewAtOnce) return run[(n + 1) / 2 - 2](job, row_begin, row_end, tokens);
  }
  FewByPanels<type>(job, tokens).run(row_begin, row_end);
}

}  // namespace cria
