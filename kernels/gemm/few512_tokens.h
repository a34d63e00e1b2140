// The tokens' side of products of few tokens on AVX-512, laid out once for all rows: see few512.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "kernels/formats/round.h"
#include "kernels/gemm/panel.h"
#include "kernels/rows/activations.h"

namespace cria {

inline constexpr std::size_t kFewTokens =
    64;  ///< that are multiplied with one decoding of the weights

/// What 256 columns of a token bring to the products.
struct alignas(64) FewToken {
  std::int8_t q[kGemmCols];
  std::int32_t start[16];  ///< where the sums begin, one per scale: -zero * (sum of the columns)
  float d[16];             ///< Super256: [0]; else one per group
  float d_sum[8];          ///< groups of 32 with m: d * sum
  std::int16_t pairs[16];  ///< Super256: the sums of the columns that meet the mins
};

/// How a type's blocks are multiplied: the half of it that the tokens must know.
struct FewShape {
  int group;   ///< columns that share a float scale
  int zero;    ///< added to every byte
  int scales;  ///< integer scales per 256 columns: 16, 8 or 0
  int mins;    ///< mins per 256 columns: 16, 8 or 0; of groups: 1 says that there is m
};

inline constexpr std::size_t kFewAtOnce = 8;  ///< tokens that may be multiplied without a panel

/// Tokens of a block of columns, the last repeated: of an even number at once, which costs less
/// than code for each.
constexpr std::size_t few_tokens_stride(std::size_t n) {
  return n <= kFewAtOnce ? (n + 1) / 2 * 2 : n;
}

/// Bytes that n tokens of rows of `cols` values take.
constexpr std::size_t few_tokens_bytes(std::size_t n, std::size_t cols) {
  return divide_up(cols, kGemmCols) * few_tokens_stride(n) * sizeof(FewToken);
}

/// Fills what `cols` columns from k on of token t bring.
template <FewShape shape>
[[gnu::always_inline]] inline void lay_out_token(const Activations& x, std::size_t t, std::size_t k,
                                                 std::size_t cols, FewToken& out) {
  constexpr std::size_t kPerSum = shape.group == 32 ? 32 : 16;
  const float* const d = x.d + (t * x.cols + k) / shape.group;
  const std::int16_t* const sum = x.sum + (t * x.cols + k) / kPerSum;
  std::memcpy(out.q, x.q + t * x.q_stride() + k, cols);
  std::memcpy(out.d, d, cols / shape.group * sizeof *d);
  if constexpr (shape.group < 256) {
    for (std::size_t i = 0; i < cols / kPerSum; ++i) out.start[i] = -shape.zero * sum[i];
    if constexpr (shape.mins != 0)
      for (std::size_t i = 0; i < cols / 32; ++i) out.d_sum[i] = d[i] * static_cast<float>(sum[i]);
    return;
  }
  if constexpr (shape.scales == 16)
    for (int i = 0; i < 16; ++i) out.start[i] = -shape.zero * sum[i];
  if constexpr (shape.scales == 8)
    for (int i = 0; i < 8; ++i) out.start[i] = -shape.zero * (sum[2 * i] + sum[2 * i + 1]);
  if constexpr (shape.scales == 0) out.start[0] = -shape.zero * std::accumulate(sum, sum + 16, 0);
  if constexpr (shape.mins == 16) std::memcpy(out.pairs, sum, sizeof out.pairs);
  if constexpr (shape.mins == 8)
    for (int i = 0; i < 8; ++i)
      out.pairs[i] = static_cast<std::int16_t>(sum[2 * i] + sum[2 * i + 1]);
}

/// LayOut::run: fills FewToken[block of 256 columns][few_tokens_stride()].
template <FewShape shape>
void lay_out_few(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
  const std::size_t stride = few_tokens_stride(x.n_tokens), end = t1 == x.n_tokens ? stride : t1;
  auto* out = reinterpret_cast<FewToken*>(to);
  for (std::size_t k = 0; k < x.cols; k += kGemmCols, out += stride) {
    const std::size_t cols = x.cols - k < kGemmCols ? x.cols - k : kGemmCols;
    for (std::size_t t = t0; t < end; ++t) {
      const std::size_t token = t < x.n_tokens ? t : x.n_tokens - 1;
      if (cols == kGemmCols)
        lay_out_token<shape>(x, token, k, kGemmCols,
                             out[t]);  // whole: loops that the compiler writes out
      else
        lay_out_token<shape>(x, token, k, cols, out[t]);
    }
  }
}

}  // namespace cria
