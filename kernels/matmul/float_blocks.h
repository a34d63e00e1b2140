// Block sizes of the float products (floats.h), per instruction set, and what all of them need of a
// job.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Register blocks of rows × tokens that read rows straight from the file, for up to max_tokens
/// tokens. All tokens meet `bytes` bytes of a few rows before the next bytes of these rows are
/// read.
struct DirectBlock {
  std::size_t most_tokens, rows, tokens, bytes;
  bool operator==(const DirectBlock&) const = default;
};
inline constexpr std::size_t kAll = std::size_t{1} << 40;
/// With a small L1 (kSmallL1Cache): F16, and BF16 as pairs. Measured on Zen 4
/// (bench/processors/zen4.md).
inline constexpr std::size_t kMaxDirectSmall = 256;
/// From `least` to `most` tokens (up to eight) meet three rows at once, and rows are prefetched
/// into L1: such products wait for memory.
struct TokensAtOnce {
  std::size_t least, most;
  [[nodiscard]] constexpr bool has(std::size_t n) const { return least <= n && n <= most; }
};
inline constexpr TokensAtOnce kNoTokens{1, 0};
inline constexpr std::size_t kMaxTileTokens = 12;
/// Up to how many tokens rows are read in long streams (RowGroups): always, and where
/// PrefetchMode::Streams is the faster way.
struct StreamTokens {
  std::size_t always, wanted;
};

/// Block sizes of an instruction set.
/// - kRows × kTokens: rows and tokens of a register block out of a panel, multiplied one register
///   of the 16 lanes at a time
/// - kRowsOfOne: rows that a single token meets together
/// - direct(): the block straight from the file, of all 16 lanes
/// - direct_small(): optional: the same with a small L1
/// - kPacked: the tokens of a block are copied together, for lack of registers (their addresses)
///   and of ways of the L1 (tokens may lie multiples of 4 KiB apart)
/// - tiles_from(): min tokens for transposing rows and tokens (float_tiles.h), if the set has a
///   transpose
/// - kTileTokens: tokens per tile, up to kMaxTileTokens
template <class Isa>
struct FloatBlock {
  static constexpr std::size_t kRows = 4, kTokens = 6, kRowsOfOne = 3;
  static constexpr StreamTokens kStreams{0, 0};
  static constexpr bool kPacked = true;
  static constexpr DirectBlock direct(Stored /*type*/) { return {6, 3, 2, kAll}; }
  static constexpr TokensAtOnce at_once(Stored /*type*/) { return kNoTokens; }
};
template <>
struct FloatBlock<Avx2> {
  static constexpr std::size_t kRows = 3, kTokens = 4, kRowsOfOne = 6, kTileTokens = 6;
  static constexpr StreamTokens kStreams{3, 24};
  static constexpr bool kPacked = true;
  static constexpr DirectBlock direct(Stored /*type*/) { return {24, 3, 2, kAll}; }
  static constexpr TokensAtOnce at_once(Stored /*type*/) { return kNoTokens; }
  static constexpr std::size_t tiles_from(Stored type) { return type == Stored::F16 ? 25 : 12; }
};
template <>
struct FloatBlock<Avx512> {
  static constexpr std::size_t kRows = 4, kTokens = 6, kRowsOfOne = 4, kTileTokens = 12;
  static constexpr StreamTokens kStreams{1, 1};
  static constexpr bool kPacked = false;
  /// More rows than tokens: the rows are in L1 for all blocks but the first, tokens come from L2.
  static constexpr DirectBlock direct(Stored type) {
    return type == Stored::F16 ? DirectBlock{128, 8, 3, kAll} : DirectBlock{48, 6, 4, 4096};
  }
  /// (Eight tokens of F16, 64 KiB with 2048 columns, would all come from L2 for every three rows.)
  static constexpr TokensAtOnce at_once(Stored type) {
    return type == Stored::F16 ? TokensAtOnce{3, 5} : TokensAtOnce{4, 8};
  }
  /// Fewer rows stay in a cache of 32 KiB together with more tokens. (Not for F32: rows of 2048
  /// columns lie 8 KiB apart and compete for a few sets of the cache.)
  static constexpr DirectBlock direct_small(Stored type) {
    return type == Stored::F16 ? DirectBlock{kMaxDirectSmall, 4, 6, kAll} : direct(type);
  }
  static std::size_t tiles_from(Stored type) {
    if (type != Stored::F16) return 32;
    return kSmallL1Cache ? kMaxDirectSmall + 1 : 80;
  }
};

/// The block straight from the file with a small L1; defaults to direct().
template <class Block>
constexpr DirectBlock small_direct(Stored type) {
  if constexpr (requires { Block::direct_small(type); }) return Block::direct_small(type);
  return Block::direct(type);
}

/// With a small L1: tokens that meet the rows of direct_small() if these fill up to half of it, so
/// that they stay there for the next tokens (0: no limit); and whether rows are prefetched into it
/// (bench/processors/zen4.md).
template <class Isa>
inline constexpr std::size_t kShortTokens = 0;
inline constexpr std::size_t kShortBytes = 16 << 10;
template <class Isa>
inline constexpr bool kNearSmall = false;

/// True if lanes hold pairs of columns (Bf16Pairs); and the number of columns of lanes.
template <class Isa>
inline constexpr bool kPairs = false;
template <class Isa>
constexpr std::size_t lane_cols(std::size_t cols) {
  return kPairs<Isa> ? (cols + 1) / 2 : cols;
}

/// Operations on split numbers, if lanes hold two halves; else the lanes' own.
template <class Isa>
struct HalfOpsOf {
  using Type = FloatOps<Isa>;
};
template <class Isa>
requires requires { typename FloatOps<Isa>::Halves; }
struct HalfOpsOf<Isa> {
  using Type = typename FloatOps<Isa>::Halves;
};
template <class Isa>
using HalfOps = typename HalfOpsOf<Isa>::Type;

// A job of a float product: its tokens, and the destination of results.

class FloatJob {
 protected:
  explicit FloatJob(const MatMulJob& job) : job_(job) {}
  [[nodiscard]] const float* token(std::size_t t) const {
    return job_.x->f32 + t * job_.x->f32_stride;
  }
  void put(std::size_t row, std::size_t t, float sum) const {
    const std::size_t at = t * job_.out_stride + row;
    job_.out[at] = job_.residual == nullptr ? sum : job_.residual[at] + sum;
  }
  const MatMulJob& job_;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
