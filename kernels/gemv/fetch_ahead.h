// How products of few tokens read weights: several rows side by side, in one of the ways that
// Reading lists.
#pragma once

#include <cstddef>

#include "kernels/simd/row_lanes.h"

namespace cria {

/// Which rows are read side by side, and who fetches them (measured: bench/processors/zen5.md).
enum class Reading {
  InOrder,  ///< neighbours, each where no prefetcher expects it: what follows in memory is fetched,
            ///< in its order
  Streams,  ///< rows far apart (RowGroups): long streams, which the processor's prefetchers follow
            ///< by themselves
  FetchedStreams,  ///< the same, for processors that want the last step into the first-level cache
                   ///< from us (fetch_stream())
  NearStreams,  ///< likewise, but shortly before it is read, when a prefetcher has brought it into
                ///< the second-level cache
};
/// How far ahead of what is read of each row fetch_stream() fetches; 0: nothing.
constexpr std::size_t stream_ahead(Reading reading) {
  switch (reading) {
    case Reading::FetchedStreams:
      return 1024;  // 512 and 1536 are slower on Zen 5 (bench/processors/zen5.md)
    case Reading::NearStreams:
      return 384;  // Zen 4: 256 to 384, less and more are slower (bench/processors/zen4.md)
    default:
      return 0;
  }
}

/// Rows that are multiplied side by side: n from `row` on, `apart` from each other.
struct RowsTogether {
  std::size_t row, n, apart;
};
/// Groups of at most `most` rows that a range of rows is walked in: neighbours, so that memory is
/// read in order, or where row_bytes is given rows as far apart as they can be, so that it is read
/// in so many long streams, which the hardware sees coming. Streams whose places are a page apart,
/// or a multiple, would push each other out of the first-level cache (its sets are chosen by the
/// place in a page), so rows are somewhat closer then, and those left over are neighbours.
class RowGroups {
 public:
  RowGroups(std::size_t begin, std::size_t end, std::size_t most, std::size_t row_bytes = 0)
      : begin_(begin), end_(end), most_(most), apart_(row_bytes == 0 ? 0 : (end - begin) / most) {
    constexpr std::size_t kPage = 4096, kLeast = 256, kTries = 8;
    if (apart_ <= kTries) return;
    for (std::size_t apart = apart_; apart > apart_ - kTries; --apart) {
      const std::size_t place = apart * row_bytes % kPage;
      if (place < kLeast || place > kPage - kLeast) continue;
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

/// The least that is fetched ahead: some memory wants more, or it does not arrive in time; some
/// less.
inline constexpr std::size_t kFetchedFar = 32 << 10, kFetchedNear = 16 << 10;

/// What is fetched while rows of group_bytes in all are read from `rows` on: some whole groups
/// further, so that the last groups of a range fetch all of the first ones that are read after it.
CRIA_INLINE inline const std::byte* fetched_beside(const std::byte* rows, std::size_t group_bytes,
                                                   std::size_t least = kFetchedFar) {
  return rows + (least + group_bytes - 1) / group_bytes * group_bytes;
}
/// The same, where the rows end at `end` and `next` is read after them (null: what follows in
/// memory).
CRIA_INLINE inline const std::byte* fetched_beside(const std::byte* rows, std::size_t group_bytes,
                                                   const std::byte* end, const std::byte* next,
                                                   std::size_t least = kFetchedFar) {
  const std::byte* const ahead = fetched_beside(rows, group_bytes, least);
  return next != nullptr && ahead >= end ? next + (ahead - end) : ahead;
}

/// Whether the first-level cache has less than 48 KiB: what is fetched far ahead would push out
/// what is wanted next, so it goes into the second. A larger one gets it, and what is too much
/// falls into the second (measured on Zen 4 and 5, bench/processors/).
extern const bool kSmallFirstCache;

/// Lines [begin, end) from p on. locality: 3 into the first-level cache, 2 into the second only.
/// (GCC takes a function that only prefetches for one without effects, unless it is inlined early.)
template <int locality>
CRIA_INLINE inline void fetch_lines(const std::byte* p, int begin, int end) {
  for (int line = begin; line < end; ++line) __builtin_prefetch(p + 64 * line, 0, locality);
}
/// Part `part` of `parts` of the lines in Bytes from p on: a burst of prefetches stalls the loads
/// between them.
template <std::size_t Bytes, int parts>
CRIA_INLINE inline void fetch_far(const std::byte* p, int part) {
  constexpr int kLines = (Bytes + 63) / 64;
  const int begin = part * kLines / parts, end = (part + 1) * kLines / parts;
  if (kSmallFirstCache)
    fetch_lines<2>(p, begin, end);
  else
    fetch_lines<3>(p, begin, end);
}
/// The lines in Bytes from p on, into the second-level cache: where several tokens of floats want
/// the first.
template <std::size_t Bytes>
CRIA_INLINE inline void fetch_far_second(const std::byte* p) {
  fetch_lines<2>(p, 0, (Bytes + 63) / 64);
}

/// The block after the next of a row, into the first-level cache if it is no longer there.
template <std::size_t Bytes>
CRIA_INLINE inline void fetch_near(const std::byte* block) {
  for (std::size_t at = 0; at < Bytes; at += 64) __builtin_prefetch(block + 2 * Bytes + at, 0, 3);
}

/// What a row read as a stream wants soon: as much as its block at `block`, so far ahead that it
/// comes in time.
template <std::size_t Bytes, Reading reading>
CRIA_INLINE inline void fetch_stream(const std::byte* block) {
  constexpr std::size_t kAhead = stream_ahead(reading);
  if constexpr (kAhead != 0)
    for (std::size_t at = 0; at < Bytes; at += 64) __builtin_prefetch(block + kAhead + at, 0, 3);
}

}  // namespace cria
