// The tokens' side of the GEMM of AVX-512 (avx512_tokens.h): laid out once for all rows, the same
// for every type that wants one form of activations and one order of columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/formats/round.h"
#include "kernels/gemm/panel.h"

namespace cria {

/// Tokens of a tile: a multiple of all micro-kernels' (6 and 15).
inline constexpr std::size_t kLaidOutTiles = 30;

/// More sums of a row of Q8x256.
struct LaidOutSums {
  std::int16_t of32[8];
  std::int32_t all;
  // Of columns in the given order only:
  std::int32_t most16;  ///< the largest sum of magnitudes of 16 columns that share a sum
  std::int32_t
      most32;  ///< the largest sum of either the positive or the negative values of 32 columns
};

/// What 256 columns of a token bring to the products.
struct alignas(64) LaidOutToken {
  std::int8_t q[kGemmCols];
  float d[16];           ///< Q8x256: [0]; else one per group
  std::int16_t sum[16];  ///< of 16 columns; Q8x32: of 32
  union {
    float d_sum[8];    ///< Q8x32: d * sum
    LaidOutSums more;  ///< Q8x256
  };
};

/// With the last one repeated, for tiles of six or of a multiple of four.
constexpr std::size_t padded_tokens(std::size_t n) { return n + 5; }

constexpr std::size_t laid_out_bytes(std::size_t n_tokens, std::size_t cols) {
  return divide_up(cols, kGemmCols) * padded_tokens(n_tokens) * sizeof(LaidOutToken);
}

/// How many tokens of so long rows a thread lays out for itself at a time: as many as stay in a
/// part of the L2, but not so few that decoding the weights again for the next ones would count.
constexpr std::size_t laid_out_together(std::size_t cols) {
  const std::size_t bytes =
      std::max(divide_up(cols, kGemmCols), std::size_t{1}) * sizeof(LaidOutToken);
  return std::clamp((1U << 20) / bytes / kLaidOutTiles, std::size_t{2},
                    kGemmTokens / kLaidOutTiles) *
         kLaidOutTiles;
}

}  // namespace cria
