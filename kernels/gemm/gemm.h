// GEMM: products of quantized weights with many tokens. A tile of rows is decoded once per 256
// columns into a panel of bytes whose lanes are the rows, and a micro-kernel of the instruction set
// (GemmKernel) multiplies it by all tokens.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/gemm/pack.h"
#include "kernels/gemm/panel.h"
#include "kernels/kernels.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Unpacked tokens, for kernels that pack nothing or pack each tile themselves.
class TokensInPlace {
 public:
  static constexpr std::size_t most(const MatMulJob& /*job*/) { return kGemmTokens; }
  TokensInPlace(const MatMulJob& job, std::size_t first, std::size_t n, std::byte* /*scratch*/)
      : x_(*job.x), first_(first), n_(n) {}
  [[nodiscard]] TokenSlice at(std::size_t k) const { return {x_, first_, n_, k}; }

 private:
  const Activations& x_;
  std::size_t first_, n_;
};

template <class Kernel, PanelShape shape>
struct TokensOf {
  using Type = TokensInPlace;
};
template <class Kernel, PanelShape shape>
requires requires { typename Kernel::template Tokens<shape>; }
struct TokensOf<Kernel, shape> {
  using Type = typename Kernel::template Tokens<shape>;
};

/// Multiplies up to kGemmPanels panels of rows by tokens from `token` on, over all columns in the
/// order of kernels/README.md. Rows up to row_end follow.
template <class Isa, DType type, class Tokens>
void gemm_tile(const MatMulJob& job, std::size_t row, std::size_t n_rows, std::size_t row_end,
               const Tokens& x, std::size_t token, std::size_t n_tokens, GemmScratch& s) {
  const std::size_t n_panels = divide_up(n_rows, kGemmRows);
  const auto rows_of = [&](std::size_t p) { return std::min(kGemmRows, n_rows - p * kGemmRows); };
  for (std::size_t p = 0; p < n_panels; ++p)
    std::memset(s.acc[p], 0, (std::min(n_tokens, kGemmTokens) + kGemmPad) * sizeof s.acc[p][0]);
  using W = LaneType<RowLanes<Isa>, type>;
  using Packer = PanelPacker<Isa, type>;
  constexpr std::size_t kBytes =
      W::kBytes * (kGemmCols / Format<type>::kBlockValues);  // bytes of a row in a panel
  const std::byte* const weights = job.weights + row * job.row_bytes;
  const std::byte* far = prefetch_address(weights, kGemmPanels * kGemmRows * job.row_bytes,
                                          job.weights + row_end * job.row_bytes, job.next_weights);
  for (std::size_t k = 0; k < job.cols; k += kGemmCols) {
    const bool last = k + kGemmCols >= job.cols;
    const std::size_t next =
        last ? n_rows * job.row_bytes : kHeaderBytes<type> + (k / kGemmCols + 1) * kBytes;
    std::size_t fetches = (n_tokens + GemmKernel<Isa>::kTokens - 1) / GemmKernel<Isa>::kTokens;
    if constexpr (requires { GemmKernel<Isa>::kPrefetchesPerPanel; })
      fetches *= n_panels * GemmKernel<Isa>::kPrefetchesPerPanel;
    Ahead ahead(weights + next, job.row_bytes, Packer::kFetches ? 0 : n_rows, kBytes, fetches);
    if (last)
      ahead.also(job.out + token * job.out_stride + row, job.out_stride, n_rows, n_tokens, fetches);
    for (std::size_t p = 0; p < n_panels; ++p, far += kGemmRows * kBytes)
      Packer::pack(job, row + p * kGemmRows, rows_of(p), k, far, s.panel[p]);
    GemmKernel<Isa>::template run<panel_shape<Isa, type>()>(x.at(k), s, n_panels, ahead);
  }
  constexpr std::size_t kOutAhead = 8;  // tokens: their rows lie far apart
  for (std::size_t t = 0; t < n_tokens; ++t) {
    const std::size_t next = (token + std::min(t + kOutAhead, n_tokens - 1)) * job.out_stride + row;
    for (std::size_t r = 0; r < n_rows; r += 64 / sizeof(float)) {
      __builtin_prefetch(job.out + next + r, 1);
      if (job.residual != nullptr) __builtin_prefetch(job.residual + next + r);
    }
    for (std::size_t p = 0; p < n_panels; ++p) {
      const std::size_t at = (token + t) * job.out_stride + row + p * kGemmRows;
      const float* const acc = s.acc[p][t];
      for (std::size_t r = 0; r < rows_of(p); ++r)
        job.out[at + r] = job.residual ? job.residual[at + r] + acc[r] : acc[r];
    }
  }
}

/// A MatMulFn for the integer types, meant for more tokens than a GEMV takes at once.
template <class Isa, DType type>
void gemm(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  auto& s = *reinterpret_cast<GemmScratch*>(scratch);
  constexpr std::size_t kRows = kGemmPanels * kGemmRows;
  constexpr PanelShape kShape = panel_shape<Isa, type>();
  using Kernel = GemmKernel<Isa>;
  static_assert(IsGemmKernel<Kernel>);
  using Tokens = typename TokensOf<Kernel, kShape>::Type;
  [[maybe_unused]] const typename Kernel::Session session(kShape);
  // Waves of equal size, in whole tiles.
  const std::size_t all = job.x->n_tokens, most = Tokens::most(job), waves = divide_up(all, most),
                    tiles = divide_up(divide_up(all, waves), Kernel::kTokens),
                    wave = std::min(most, tiles * Kernel::kTokens);
  for (std::size_t t = 0; t < all; t += wave) {
    const std::size_t n_tokens = std::min(wave, all - t);
    const Tokens x(job, t, n_tokens, scratch + sizeof s);
    for (std::size_t r = row_begin; r < row_end; r += kRows)
      gemm_tile<Isa, type>(job, r, std::min(kRows, row_end - r), row_end, x, t, n_tokens, s);
  }
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria

namespace cria {

/// The GEMM of a type of integers in blocks, else null. Instantiated by isa/NAME_gemm.cpp.
template <class Isa>
MatMulFn gemm_kernel(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return gemm<Isa, t>;
    return nullptr;
  });
}

}  // namespace cria
