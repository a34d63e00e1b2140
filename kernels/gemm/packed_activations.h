// Layouts of packed activations (PackActivations) of the GEMM of AVX-512 and of the small-batch
// GEMMs, and their sizes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "kernels/gemm/panel.h"
#include "kernels/rows/activations.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Packed activations of the GEMM of AVX-512 (avx512_tokens.h), the same for every type with the
// same ActType and order of columns.

/// Tokens of a tile: a multiple of all micro-kernels' (6 and 15).
inline constexpr std::size_t kPackedTiles = 30;

/// More sums of a row of Q8x256.
struct PackedSums {
  std::int16_t of32[8];
  std::int32_t all;
  // With columns in the given order only:
  std::int32_t most16;  ///< the largest sum of magnitudes of 16 columns that share a sum
  std::int32_t
      most32;  ///< the largest sum of either the positive or the negative values of 32 columns
};

/// A token's part of 256 columns.
struct alignas(64) PackedToken {
  std::int8_t q[kGemmCols];
  float d[16];           ///< Q8x256: [0]; else one per group
  std::int16_t sum[16];  ///< of 16 columns; Q8x32: of 32 columns
  union {
    float d_sum[8];   ///< Q8x32: d * sum
    PackedSums more;  ///< Q8x256
  };
};

/// With the last one repeated, for tiles of six or of a multiple of four.
constexpr std::size_t padded_tokens(std::size_t n) { return n + 5; }

constexpr std::size_t packed_bytes(std::size_t n_tokens, std::size_t cols) {
  return divide_up(cols, kGemmCols) * padded_tokens(n_tokens) * sizeof(PackedToken);
}

/// Tokens that a thread packs at a time: they fit in part of the L2, but are numerous enough to
/// make repeated decoding of the weights cheap.
constexpr std::size_t packed_together(std::size_t cols) {
  const std::size_t bytes =
      std::max(divide_up(cols, kGemmCols), std::size_t{1}) * sizeof(PackedToken);
  return std::clamp((1U << 20) / bytes / kPackedTiles, std::size_t{2}, kGemmTokens / kPackedTiles) *
         kPackedTiles;
}

// Packed activations of the small-batch GEMM of AVX-512 (small512.h).

inline constexpr std::size_t kMaxSmallTokens = 64;  ///< tokens per decoding of the weights

/// A token's part of 256 columns.
struct alignas(64) SmallToken {
  std::int8_t q[kGemmCols];
  std::int32_t start[16];  ///< where the sums begin, one per scale: -zero * (sum of the columns)
  float d[16];             ///< Super256: [0]; else one per group
  float d_sum[8];          ///< groups of 32 with m: d * sum
  std::int16_t pairs[16];  ///< Super256: the sums of the columns that meet the mins
};

/// The part of a type's block shape that packing needs.
struct SmallShape {
  int group;   ///< columns that share a float scale
  int zero;    ///< added to every byte
  int scales;  ///< integer scales per 256 columns: 16, 8 or 0
  int mins;    ///< mins per 256 columns: 16, 8 or 0; of groups: 1 says that there is m
};

inline constexpr std::size_t kMaxTokensAtOnce = 8;  ///< tokens of products without a panel

/// Tokens of a block of columns. Up to kMaxTokensAtOnce are an even number, the last one repeated:
/// computing one more costs less than code for every number.
constexpr std::size_t small_tokens_stride(std::size_t n) {
  return n <= kMaxTokensAtOnce ? (n + 1) / 2 * 2 : n;
}

/// Bytes that n tokens of rows of `cols` values take.
constexpr std::size_t small_tokens_bytes(std::size_t n, std::size_t cols) {
  return divide_up(cols, kGemmCols) * small_tokens_stride(n) * sizeof(SmallToken);
}

/// Fills what `cols` columns from k on of token t bring.
template <SmallShape shape>
inline void pack_small_token(const Activations& x, std::size_t t, std::size_t k, std::size_t cols,
                             SmallToken& out) {
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

/// PackActivations::run: fills SmallToken[block of 256 columns][small_tokens_stride()].
template <SmallShape shape>
void pack_small_tokens(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
  const std::size_t stride = small_tokens_stride(x.n_tokens);
  const std::size_t end = t1 == x.n_tokens ? stride : t1;
  auto* out = reinterpret_cast<SmallToken*>(to);
  for (std::size_t k = 0; k < x.cols; k += kGemmCols, out += stride) {
    const std::size_t cols = x.cols - k < kGemmCols ? x.cols - k : kGemmCols;
    for (std::size_t t = t0; t < end; ++t) {
      const std::size_t token = t < x.n_tokens ? t : x.n_tokens - 1;
      if (cols == kGemmCols)
        pack_small_token<shape>(x, token, k, kGemmCols,
                                out[t]);  // whole: loops that the compiler writes out
      else
        pack_small_token<shape>(x, token, k, cols, out[t]);
    }
  }
}

// Packed activations of the small-batch GEMM of AVX2 and AVX-VNNI (small256.h).

inline constexpr std::size_t kTileTokens = 4;    ///< max tokens per tile
inline constexpr std::size_t kTiledTokens = 64;  ///< tokens per decoding of the weights

/// Type of the sums of a tile before a scale is applied.
enum class TileSums {
  Int16,   ///< int16: bytes are multiplied in pairs, as many as fit (AVX2)
  Full,    ///< weights are signed bytes of any size, of which no two products fit: none (AVX2)
  Dwords,  ///< int32: bytes are multiplied in fours (AVX-VNNI)
  Shorts,  ///< int32 whose values fit in int16 (AVX-VNNI)
};

/// The shape of a type's blocks. Structural, so that types of equal shape share kernels; `sums`
/// tells the instruction set.
struct Small256Shape {
  int group;  ///< columns that share a float scale
  TileSums sums;
  int zero;  ///< added to every weight
  bool
      centred;  ///< sums begin with what takes the zero away; else it is taken from the block's sum
  int run;  ///< Words: registers of four columns whose products fit in an int16, if centred: less
            ///< the zero's share
  int scales;  ///< integer scales per 256 columns: 16, 8 or 0
  int mins;    ///< mins per 256 columns: 16, 8 or 0; of groups: 1 says that there is m

  [[nodiscard]] constexpr bool in_fours() const {
    return sums == TileSums::Dwords || sums == TileSums::Shorts;
  }
  [[nodiscard]] constexpr bool groups() const { return group < 256; }
  /// Registers of four columns that are summed before a scale is applied.
  [[nodiscard]] constexpr int steps() const {
    return groups() ? group / 4 : scales == 0 ? 64 : 64 / scales;
  }
  /// Steps summed separately.
  [[nodiscard]] constexpr int in_one_run() const {
    return in_fours() || run >= steps() ? steps() : run;
  }
  /// Pairs of the block's sums of activations that meet a factor of each row: mins, or what the
  /// zero asks for.
  [[nodiscard]] constexpr int pairs() const {
    return groups() ? 0 : mins != 0 ? mins / 2 : zero != 0 && !centred ? scales / 2 : 0;
  }
};

/// The part of up to four tokens of 256 columns.
struct alignas(64) TokenTile {
  std::int8_t q[kTileTokens][kGemmCols];
  std::int32_t
      start[32][kTileTokens];  ///< where the sums begin, one per run: int32, of Words both int16
  std::int32_t pairs[8]
                    [kTileTokens];  ///< sums of the columns that share a scale or a min, two int16
  float d[16][kTileTokens];         ///< Super256: [0]; else one per group
  float d_sum[8][kTileTokens];      ///< groups with m: d * sum
};

constexpr std::size_t token_tiles(std::size_t n) { return divide_up(n, kTileTokens); }

/// Bytes that n tokens of rows of `cols` values take.
constexpr std::size_t token_tiles_bytes(std::size_t n, std::size_t cols) {
  return divide_up(cols, kGemmCols) * token_tiles(n) * sizeof(TokenTile);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
