// The tokens' side of products of few tokens, laid out once for all rows: see few.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/gemm/panel.h"
#include "kernels/rows/activations.h"

namespace cria {

inline constexpr std::size_t kFewTokens = 64;  ///< that are multiplied with one decoding of the weights

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
  int mins;    ///< mins per 256 columns: 16, 8 or 0
};

/// Bytes of scratch that the tokens of rows of `cols` values take.
constexpr std::size_t few_tokens_bytes(std::size_t cols) {
  return (cols + kGemmCols - 1) / kGemmCols * kFewTokens * sizeof(FewToken);
}

/// Fills out[block of 256 columns][token].
inline void lay_out_tokens(const Activations& x, FewShape shape, FewToken* out) {
  const std::size_t per_sum = shape.group == 32 ? 32 : 16, d_stride = x.cols / shape.group,
                    sum_stride = x.cols / per_sum;
  for (std::size_t k = 0; k < x.cols; k += kGemmCols) {
    const std::size_t cols = x.cols - k < kGemmCols ? x.cols - k : kGemmCols;
    for (std::size_t t = 0; t < x.n_tokens; ++t, ++out) {
      std::memcpy(out->q, x.q + t * x.q_stride() + k, cols);
      const float* const d = x.d + t * d_stride + k / shape.group;
      const std::int16_t* const sum = x.sum + t * sum_stride + k / per_sum;
      for (std::size_t i = 0; i < cols / shape.group; ++i) out->d[i] = d[i];
      if (shape.group < 256) {
        for (std::size_t i = 0; i < cols / shape.group; ++i) out->start[i] = -shape.zero * sum[i];
        for (std::size_t i = 0; shape.group == 32 && i < cols / 32; ++i)
          out->d_sum[i] = d[i] * static_cast<float>(sum[i]);
        continue;
      }
      int total = 0;
      for (int i = 0; i < 8; ++i) {
        const int a = sum[2 * i], b = sum[2 * i + 1];
        total += a + b;
        if (shape.scales == 16) {
          out->start[2 * i] = -shape.zero * a;
          out->start[2 * i + 1] = -shape.zero * b;
        } else {
          out->start[i] = -shape.zero * (a + b);
        }
        out->pairs[i] = static_cast<std::int16_t>(a + b);
      }
      if (shape.scales == 0) out->start[0] = -shape.zero * total;
      if (shape.mins == 16) std::memcpy(out->pairs, sum, sizeof out->pairs);
    }
  }
}

}  // namespace cria
