// How products of few tokens read weights. Several rows are read side by side: neighbours, each where no prefetcher expects
// it, while in memory they follow one another, so that they are fetched in the order in which they lie; or rows far apart,
// which the processor's prefetchers follow by themselves.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/formats/dtype.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

/// Types whose weights are looked up in tables of entries: they wait for that, and do not gain by long streams, but lose by
/// what is not fetched early enough into the first-level cache.
constexpr bool has_codebook(DType type) {
  switch (type) {
    case DType::IQ3_S:
    case DType::IQ3_XXS:
    case DType::IQ2_S:
    case DType::IQ2_XS:
    case DType::IQ2_XXS:
    case DType::IQ1_S:
    case DType::IQ1_M:
      return true;
    default:
      return false;
  }
}

/// Rows that are multiplied side by side: n from `row` on, `apart` from each other.
struct RowsTogether {
  std::size_t row, n, apart;
};
/// Groups of at most `most` rows that a range of rows is walked in. spread: rows lie as far apart as they can, so that
/// memory is read in so many long streams, which the hardware sees coming; else they are neighbours, and memory is read in
/// order.
class RowGroups {
 public:
  RowGroups(std::size_t begin, std::size_t end, std::size_t most, bool spread)
      : begin_(begin),
        most_(most),
        whole_((end - begin) / most),
        rest_((end - begin) % most),
        spread_(spread) {}
  [[nodiscard]] std::size_t size() const { return whole_ + (rest_ != 0 ? 1 : 0); }
  [[nodiscard]] RowsTogether operator[](std::size_t i) const {
    if (i == whole_) return {begin_ + whole_ * most_, rest_, 1};
    if (spread_) return {begin_ + i, most_, whole_};
    return {begin_ + i * most_, most_, 1};
  }

 private:
  std::size_t begin_, most_, whole_, rest_;
  bool spread_;
};

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
