// The sizes of blocks of the float products (floats.h), per instruction set.
#pragma once

#include <cstddef>

#include "kernels/simd/f32x16.h"

namespace cria {

/// How tokens meet rows straight from the file: up to most_tokens, in register blocks of rows × tokens; all tokens of a wave
/// meet so many bytes of each row before the next bytes are read.
struct DirectBlock {
  std::size_t most_tokens, rows, tokens, bytes;
};
inline constexpr std::size_t kAll = std::size_t{1} << 40;

/// From a panel kRows rows × kTokens tokens, one register of the 16 lanes at a time; straight from the file all, kRowsOfOne
/// rows with a single token or a block of direct(). kPacked: the tokens of a block are copied together, for want of registers
/// (their addresses) and of ways of the L1 (tokens lie 4 KiB apart or a multiple).
/// kTilesFrom: from here on it pays to transpose the rows (float_tiles.h), where the instruction set has a transpose.
/// kStreamTokens: up to here rows are read in long streams (RowGroups).
template <class Isa>
struct FloatBlock {
  static constexpr std::size_t kRows = 4, kTokens = 6, kRowsOfOne = 3, kTilesFrom = 128, kStreamTokens = 0;
  static constexpr bool kPacked = true;
  static constexpr DirectBlock direct(Stored /*type*/) { return {6, 3, 2, kAll}; }
};
template <>
struct FloatBlock<Avx2> {
  static constexpr std::size_t kRows = 3, kTokens = 4, kRowsOfOne = 6, kTilesFrom = 128, kStreamTokens = 24;
  static constexpr bool kPacked = true;
  static constexpr DirectBlock direct(Stored /*type*/) { return {24, 3, 2, kAll}; }
};
template <>
struct FloatBlock<Avx512> {
  static constexpr std::size_t kRows = 4, kTokens = 6, kRowsOfOne = 4, kStreamTokens = 1;
  static constexpr bool kPacked = false;
  /// More rows than tokens: the rows are in L1 for all blocks but the first, tokens come from L2.
  static constexpr DirectBlock direct(Stored type) {
    return type == Stored::F16 ? DirectBlock{128, 8, 3, kAll} : DirectBlock{48, 6, 4, 4096};
  }
};

}  // namespace cria
