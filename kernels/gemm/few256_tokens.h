// The tokens' side of products of few tokens on AVX2 and AVX-VNNI, laid out once for all rows: see
// few256.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/round.h"
#include "kernels/gemm/panel.h"

namespace cria {

inline constexpr std::size_t kTileTokens = 4;  ///< of a tile at most
inline constexpr std::size_t kTiledTokens =
    64;  ///< that are multiplied with one decoding of the weights

/// What the products of a tile are summed up in, before a scale is applied.
enum class TileSums {
  Words,   ///< int16: bytes are multiplied in pairs, as many as fit (AVX2)
  Full,    ///< weights are signed bytes of any size, of which no two products fit: none (AVX2)
  Dwords,  ///< int32: bytes are multiplied in fours (AVX-VNNI)
  Shorts,  ///< likewise, and all that share a scale fit in an int16
};

/// How a type's blocks are multiplied. Structural, so that types of equal shape share their
/// kernels; `sums` says whose they are.
struct FewRowsShape {
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
  /// Of these, with sums of their own.
  [[nodiscard]] constexpr int in_one_run() const {
    return in_fours() || run >= steps() ? steps() : run;
  }
  /// Pairs of the block's sums of activations that meet a factor of each row: mins, or what the
  /// zero asks for.
  [[nodiscard]] constexpr int pairs() const {
    return groups() ? 0 : mins != 0 ? mins / 2 : zero != 0 && !centred ? scales / 2 : 0;
  }
};

/// What 256 columns of up to four tokens bring to the products.
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

/// Bytes that n tokens of rows of `cols` values take. (Inlined: see formats/f16.h)
[[gnu::always_inline]] constexpr std::size_t token_tiles_bytes(std::size_t n, std::size_t cols) {
  return divide_up(cols, kGemmCols) * token_tiles(n) * sizeof(TokenTile);
}

}  // namespace cria
