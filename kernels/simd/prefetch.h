// Software prefetches: which rows a kernel reads together, and how far ahead of them it prefetches.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

/// True if L1 has less than 48 KiB. Far prefetches then go to L2, since they would evict lines that
/// are needed soon. A larger L1 receives them, and evicts the excess to L2 (measured on Zen 4 and
/// 5, bench/processors/).
extern const bool kSmallL1Cache;

}  // namespace cria

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// A GEMV reads several rows together, in one of two modes (PrefetchMode).

/// Rows that are multiplied side by side: n from `row` on, `apart` from each other.
struct RowsTogether {
  std::size_t row, n, apart;
};
/// Groups of up to `most` rows of a range. Without row_bytes they are neighbours, so that memory is
/// read in order. With row_bytes they are far apart, so that each is a long stream, which hardware
/// prefetchers follow. Streams at multiples of a page would evict each other from L1, whose sets
/// depend on the address within a page: their rows are moved closer, and the remaining rows are
/// neighbours.
class RowGroups {
 public:
  RowGroups(std::size_t begin, std::size_t end, std::size_t most, std::size_t row_bytes = 0)
      : begin_(begin), end_(end), most_(most), apart_(row_bytes == 0 ? 0 : (end - begin) / most) {
    constexpr std::size_t kPage = 4096, kMin = 256, kTries = 8;
    if (apart_ <= kTries) return;
    for (std::size_t apart = apart_; apart > apart_ - kTries; --apart) {
      const std::size_t place = apart * row_bytes % kPage;
      if (place < kMin || place > kPage - kMin) continue;
      apart_ = apart;
      return;
    }
  }
  [[nodiscard]] std::size_t size() const { return apart_ + (end_ - rest() + most_ - 1) / most_; }
  [[nodiscard]] RowsTogether operator[](std::size_t i) const {
    if (i < apart_) return {begin_ + i, most_, apart_};
    const std::size_t row = rest() + (i - apart_) * most_;
    return {row, end_ - row < most_ ? end_ - row : most_, 1};
  }

 private:
  [[nodiscard]] std::size_t rest() const { return begin_ + apart_ * most_; }
  std::size_t begin_, end_, most_, apart_;
};

/// Min prefetch distance, in bytes; the best one depends on the memory.
inline constexpr std::size_t kPrefetchFar = 32 << 10, kPrefetchNear = 8 << 10;

/// Prefetch address for rows of group_bytes in total at `rows`: whole groups ahead, so that the
/// last groups of a range prefetch all of the first ones that are read next.
CRIA_INLINE inline const std::byte* prefetch_address(const std::byte* rows, std::size_t group_bytes,
                                                     std::size_t least = kPrefetchFar) {
  return rows + (least + group_bytes - 1) / group_bytes * group_bytes;
}
/// The same, where the rows end at `end` and `next` is read after them (null: what follows in
/// memory).
CRIA_INLINE inline const std::byte* prefetch_address(const std::byte* rows, std::size_t group_bytes,
                                                     const std::byte* end, const std::byte* next,
                                                     std::size_t least = kPrefetchFar) {
  const std::byte* const ahead = prefetch_address(rows, group_bytes, least);
  return next != nullptr && ahead >= end ? next + (ahead - end) : ahead;
}

/// Prefetches lines [begin, end) from p on. locality: 3 into L1, 2 into L2 only. (Without early
/// inlining GCC deletes functions that only prefetch.)
template <int locality>
CRIA_INLINE inline void prefetch_lines(const std::byte* p, int begin, int end) {
  for (int line = begin; line < end; ++line) __builtin_prefetch(p + 64 * line, 0, locality);
}
/// Part `part` of `parts` of the lines in Bytes from p on: a burst of prefetches stalls the loads
/// between them. near(): prefetches what is read soon; called if L1 is so small that lines go to
/// L2.
template <std::size_t Bytes, int parts, class Near>
CRIA_INLINE inline void prefetch_far(const std::byte* p, int part, Near near) {
  constexpr int kLines = (Bytes + 63) / 64;
  const int begin = part * kLines / parts, end = (part + 1) * kLines / parts;
  if (kSmallL1Cache) {
    prefetch_lines<2>(p, begin, end);
    near();
  } else {
    prefetch_lines<3>(p, begin, end);
  }
}
template <std::size_t Bytes, int parts>
CRIA_INLINE inline void prefetch_far(const std::byte* p, int part) {
  prefetch_far<Bytes, parts>(p, part, [] {});
}
/// Prefetches Bytes from p on into L2, for float products of several tokens, which need L1.
template <std::size_t Bytes>
CRIA_INLINE inline void prefetch_far_l2(const std::byte* p) {
  prefetch_lines<2>(p, 0, (Bytes + 63) / 64);
}

/// Prefetches the block after next of a row into L1, in case it was evicted.
template <std::size_t Bytes>
CRIA_INLINE inline void prefetch_near(const std::byte* block) {
  for (std::size_t at = 0; at < Bytes; at += 64) __builtin_prefetch(block + 2 * Bytes + at, 0, 3);
}

/// Prefetches a row that is read as a stream into L1: as much as its block at `block`, `distance`
/// bytes ahead.
template <std::size_t Bytes>
CRIA_INLINE inline void prefetch_stream(const std::byte* block, std::size_t distance) {
  for (std::size_t at = 0; at < Bytes; at += 64) __builtin_prefetch(block + distance + at, 0, 3);
}
/// Best distances for AVX-512 kernels: 384 bytes on Zen 4 (L1 of 32 KiB), 1 KiB on Zen 5
/// (bench/processors/zen4.md, zen5.md).
CRIA_INLINE inline std::size_t stream_distance() { return kSmallL1Cache ? 384 : 1024; }

// Prefetches of several pieces of memory in turn.

/// Prefetches pieces of memory into L2 during other work, a line of each in turn: consecutive lines
/// come through one memory channel, which is too slow (bench/processors/zen5.md).
class PrefetchInTurn {
 public:
  /// Whatever is left of the pieces before is forgotten.
  void clear() { n_ = line_ = lines_ = 0; }
  /// At most kMost pieces; p and bytes at multiples of 64.
  void add(const std::byte* p, std::size_t bytes) {
    assert(n_ < kMost);
    pieces_[n_++] = {p, bytes / kLine};
    lines_ = std::max(lines_, bytes / kLine);
  }
  /// So often will some() be called, at least.
  void pace(std::size_t calls) { pace_ = (lines_ + calls - 1) / calls; }

  void some() { up_to(std::min(line_ + pace_, lines_)); }
  void rest() { up_to(lines_); }

  static constexpr std::size_t kMost = 4;

 private:
  static constexpr std::size_t kLine = 64;
  struct Piece {
    const std::byte* at;
    std::size_t lines;
  };

  [[gnu::always_inline]] void up_to(std::size_t end) {
    for (; line_ < end; ++line_)
      for (std::size_t i = 0; i < n_; ++i)
        if (line_ < pieces_[i].lines) __builtin_prefetch(pieces_[i].at + line_ * kLine, 0, 2);
  }

  Piece pieces_[kMost];
  std::size_t n_ = 0, line_ = 0, lines_ = 0, pace_ = 0;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
