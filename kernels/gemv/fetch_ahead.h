// Fetching weights before a product of few tokens reads them. Several rows are read side by side, each where
// no prefetcher expects it, while in memory they follow one another: so
// they are fetched in the order in which they lie.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/simd/row_lanes.h"

namespace cria {

/// What is fetched into the second-level cache while rows of group_bytes in all are read from `rows` on. Not
/// into the first-level cache, where groups of long rows push each other out; nor less far ahead, or it does
/// not arrive in time.
CRIA_INLINE inline const std::byte* fetched_beside(const std::byte* rows, std::size_t group_bytes) {
  constexpr std::size_t kLeast = 32 << 10;
  return rows + std::max(group_bytes, kLeast);
}
/// The same, where the rows end at `end` and `next` is read after them (null: what follows in memory).
CRIA_INLINE inline const std::byte* fetched_beside(const std::byte* rows, std::size_t group_bytes,
                                                   const std::byte* end, const std::byte* next) {
  const std::byte* const ahead = fetched_beside(rows, group_bytes);
  return next != nullptr && ahead >= end ? next + (ahead - end) : ahead;
}

/// Part `part` of `parts` of the lines in Bytes from p on, into the second-level cache: a burst of prefetches
/// stalls the loads between them. (GCC takes a function that only prefetches for one without effects, unless
/// it is inlined early.)
template <std::size_t Bytes, int parts>
CRIA_INLINE inline void fetch_far(const std::byte* p, int part) {
  constexpr int kLines = (Bytes + 63) / 64;
  for (int line = part * kLines / parts; line < (part + 1) * kLines / parts; ++line)
    __builtin_prefetch(p + 64 * line, 0, 2);
}

/// The block after the next of a row, from there into the first-level cache.
template <std::size_t Bytes>
CRIA_INLINE inline void fetch_near(const std::byte* block) {
  for (std::size_t at = 0; at < Bytes; at += 64) __builtin_prefetch(block + 2 * Bytes + at, 0, 3);
}

}  // namespace cria
