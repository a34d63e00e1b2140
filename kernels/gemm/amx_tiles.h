// Tiles of AMX: how they are configured, and what they hold.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/panel.h"

namespace cria {

/// What ldtilecfg reads. Tiles 0–3 are sums; 4 and 5 hold activations, 6 and 7 weights, but for K
/// types 5 is a sum, too. A group of 32 or 16 columns fills half or a quarter of the latter.
/// Constants, since GCC 12 does not know how much the instruction reads.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
inline constexpr TileConfig kTiles{};
inline constexpr TileConfig kTilesOf32{.row_bytes = {64, 64, 64, 64, 32, 32, 64, 64},
                                       .rows = {16, 16, 16, 16, 16, 16, 8, 8}};
inline constexpr TileConfig kTilesOf16{.row_bytes = {64, 64, 64, 64, 16, 16, 64, 64},
                                       .rows = {16, 16, 16, 16, 16, 16, 4, 4}};

/// A tile's sums in memory: tokens × rows of weights.
using AmxTile = std::int32_t[16][16];
/// Accumulators of a token and a panel.
using AmxAcc = float[kGemmRows];

/// The tokens that share one reading of a panel's tiles.
inline constexpr std::size_t kAmxTokens = 32;

}  // namespace cria
