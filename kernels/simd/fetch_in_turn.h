// Prefetches of several pieces of memory in turn.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace cria {

/// Pieces of memory on their way into the second-level cache while something else is done, a line
/// of each in turn: lines that follow one another come through one channel of memory, which alone
/// is too slow (bench/processors/zen5.md).
class FetchInTurn {
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

}  // namespace cria
