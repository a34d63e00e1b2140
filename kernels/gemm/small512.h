// The small-batch GEMM of AVX-512, for token counts for which a GEMV would unpack the weights more
// than once and a GEMM would pad. Blocks of 256 columns of two times sixteen rows are unpacked and
// transposed into panels that stay in L1; up to 8 tokens of simple types are multiplied without a
// panel. Memory is read in order, as by the GEMV.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/gemm/small512_products.h"
#include "kernels/kernels.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Sixteen rows' products with token t.
CRIA_INLINE inline void small_output(const MatMulJob& job, std::size_t row, std::size_t n_rows,
                                     std::size_t t, __m512 acc) {
  const auto present = static_cast<__mmask16>((1U << n_rows) - 1);
  const std::size_t at = t * job.out_stride + row;
  if (job.residual) acc = _mm512_add_ps(_mm512_maskz_loadu_ps(present, job.residual + at), acc);
  _mm512_mask_storeu_ps(job.out + at, present, acc);
}

/// At most T tokens, of T packed ones, without a panel.
template <DType type, int T>
CRIA_FLATTEN void small_at_once(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                                const SmallToken* tokens) {
  using Decoder = SmallDecoder<type>;
  const std::byte* const end = job.weights + row_end * job.row_bytes;
  for (std::size_t r = row_begin; r < row_end; r += kSmallRows) {
    const std::size_t n_rows = std::min(kSmallRows, row_end - r);
    const typename Decoder::Rows rows(job, r, n_rows);
    const std::byte* far =
        prefetch_address(rows.at[0], kSmallRows * job.row_bytes, end, job.next_weights);
    std::size_t offset = kHeaderBytes<type>;
    __m512 total[1][T];
    unroll<T>([&](int t) CRIA_INLINE { total[0][t] = _mm512_setzero_ps(); });
    for (std::size_t k = 0; k < job.cols; k += Decoder::kBlockValues) {
      SmallAtOnce<type, T>::add_block(rows, offset, tokens + k / kGemmCols * T, k % kGemmCols, far,
                                      total);
      offset += Decoder::kBytes;
      far += kSmallRows * Decoder::kBytes;
    }
    unroll<T>([&](auto t) CRIA_INLINE {
      if (t < job.x->n_tokens) small_output(job, r, n_rows, t, total[0][t]);
    });
  }
}

/// Any number of tokens from kMinSmallTile to kMaxSmallTokens.
template <DType type>
class SmallGemm {
  using Decoder = SmallDecoder<type>;
  using Rows = typename Decoder::Rows;
  static constexpr SmallShape kShape = Decoder::kShape;
  static constexpr std::size_t kBlockValues = Decoder::kBlockValues,
                               kBlocks = kGemmCols / kBlockValues, kBytes = Decoder::kBytes,
                               kPanelBytes = kBlocks * kBytes;
  /// Panels that a row is prefetched ahead into L1, which must hold them for 32 rows.
  static constexpr std::size_t kNear = kPanelBytes > 160 ? 1 : 2;

 public:
  SmallGemm(const MatMulJob& job, const SmallToken* tokens) : job_(job), tokens_(tokens) {}

  void run(std::size_t row_begin, std::size_t row_end) {
    for (std::size_t r = row_begin; r < row_end; r += kSmallPanelRows)
      together(r, std::min(kSmallPanelRows, row_end - r), job_.weights + row_end * job_.row_bytes);
  }

 private:
  /// Rows of the panel, of n that begin with `row`; a panel without rows repeats the first ones.
  [[nodiscard]] Rows rows_of(std::size_t panel, std::size_t row, std::size_t n) const {
    const std::size_t first = panel * kSmallRows < n ? panel * kSmallRows : 0;
    return Rows(job_, row + first, std::min(kSmallRows, n - first));
  }
  /// `end`: of all rows.
  CRIA_FLATTEN void together(std::size_t row, std::size_t n_rows, const std::byte* end) {
    const Rows rows[kSmallPanels] = {rows_of(0, row, n_rows), rows_of(1, row, n_rows)};
    const std::size_t n = job_.x->n_tokens;
    const std::byte* far =
        prefetch_address(rows[0].at[0], kSmallPanelRows * job_.row_bytes, end, job_.next_weights);
    std::memset(acc_, 0, n * sizeof acc_[0]);
    for (std::size_t k = 0; k < job_.cols; k += kGemmCols, far += kPanelBytes * kSmallPanelRows) {
      const std::size_t cols = std::min(kGemmCols, job_.cols - k),
                        offset = kHeaderBytes<type> + k / kBlockValues * kBytes;
      SmallPrefetch ahead[kSmallPanels];
      for (std::size_t p = 0; p < kSmallPanels; ++p) {
        ahead[p] = {far + p * kPanelBytes * kSmallRows, kPanelBytes * kSmallRows / 64, rows[p].at,
                    offset + kNear * kPanelBytes, kPanelBytes};
        for (std::size_t b = 0; b < cols / kBlockValues; ++b)
          small_pack<type>(rows[p], offset + b * kBytes, b, panels_[p], ahead[p]);
      }
      multiply(tokens_ + k / kGemmCols * small_tokens_stride(n), cols, ahead);
    }
    for (std::size_t first = 0; first < n_rows; first += kSmallRows)
      for (std::size_t t = 0; t < n; ++t)
        small_output(job_, row + first, std::min(kSmallRows, n_rows - first), t,
                     _mm512_load_ps(acc_[t] + first));
  }
  /// Tiles of tokens as equal as can be.
  void multiply(const SmallToken* x, std::size_t cols, const SmallPrefetch* ahead) {
    constexpr auto& kernels = kSmallProducts<kShape, Decoder::kFits>;
    static constexpr SmallPrefetch kNothing[kSmallPanels] = {};
    const std::size_t n = job_.x->n_tokens, n_tiles = divide_up(n, kMaxSmallTile);
    for (std::size_t i = 0; i < n_tiles; ++i) {
      const std::size_t t = n * i / n_tiles, end = n * (i + 1) / n_tiles;
      kernels[end - t - kMinSmallTile](panels_, x + t, cols / kShape.group,
                                       t == 0 ? ahead : kNothing, acc_ + t);
    }
  }

  const MatMulJob& job_;
  const SmallToken* tokens_;
  SmallPanel panels_[kSmallPanels];
  alignas(64) float acc_[kMaxSmallTokens][kSmallPanelRows];
};

/// A MatMulFn for up to kMaxSmallTokens tokens, but at least kMinSmallTile if decoding leaves no
/// registers for sums: codebooks do not. Others multiply a few tokens at once.
template <DType type>
void small512_gemm(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                   std::byte* scratch) {
  const std::size_t n = job.x->n_tokens;
  if (job.packed == nullptr) pack_small_tokens<SmallDecoder<type>::kShape>(*job.x, 0, n, scratch);
  const auto* const tokens =
      reinterpret_cast<const SmallToken*>(job.packed != nullptr ? job.packed : scratch);
  if constexpr (SmallDecoder<type>::kColumns) {
    constexpr auto kRun = std::array{small_at_once<type, 2>, small_at_once<type, 4>,
                                     small_at_once<type, 6>, small_at_once<type, 8>};
    if (n <= kMaxTokensAtOnce) return kRun[(n + 1) / 2 - 1](job, row_begin, row_end, tokens);
  }
  SmallGemm<type>(job, tokens).run(row_begin, row_end);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
