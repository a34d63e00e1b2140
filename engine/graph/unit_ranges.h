// Sets of units as ranges. A unit is what ranks divide a node into: a row of its matrices, a head,
// a channel, a column of its output.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

namespace cria {

/// Units [begin, end).
struct UnitRange {
  std::size_t begin = 0, end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
  bool operator==(const UnitRange&) const = default;
};

/// Ascending ranges that neither overlap nor touch.
class UnitRanges {
 public:
  UnitRanges() = default;
  UnitRanges(UnitRange range) { add(range); }

  /// Adds a range, which may overlap others.
  void add(UnitRange range) {
    if (range.begin >= range.end) return;
    const auto first = std::ranges::lower_bound(ranges_, range.begin, {}, &UnitRange::end);
    auto last = first;
    for (; last != ranges_.end() && last->begin <= range.end; ++last)
      range = {std::min(range.begin, last->begin), std::max(range.end, last->end)};
    ranges_.insert(ranges_.erase(first, last), range);
  }
  void add(const UnitRanges& other) {
    for (const UnitRange& range : other) add(range);
  }

  [[nodiscard]] std::vector<UnitRange>::const_iterator begin() const { return ranges_.begin(); }
  [[nodiscard]] std::vector<UnitRange>::const_iterator end() const { return ranges_.end(); }
  /// Number of units.
  [[nodiscard]] std::size_t size() const {
    std::size_t sum = 0;
    for (const UnitRange& range : ranges_) sum += range.size();
    return sum;
  }
  /// Returns the units if they are at most one range.
  [[nodiscard]] UnitRange range() const {
    assert(ranges_.size() <= 1);
    return ranges_.empty() ? UnitRange{} : ranges_.front();
  }
  /// Returns the unit at an index; index size(): the end of the last range, or 0.
  [[nodiscard]] std::size_t operator[](std::size_t index) const {
    for (const UnitRange& range : ranges_) {
      if (index < range.size()) return range.begin + index;
      index -= range.size();
    }
    return ranges_.empty() ? 0 : ranges_.back().end;
  }
  /// Returns true if all units of `other` are among these.
  [[nodiscard]] bool contain(const UnitRanges& other) const {
    UnitRanges both = *this;
    both.add(other);
    return both == *this;
  }
  /// f(range of units, index of its first) for the units at indices [part.begin, part.end).
  template <class F>
  void for_each(UnitRange part, F&& f) const {
    std::size_t index = 0;
    for (const UnitRange& range : ranges_) {
      const std::size_t from = std::max(part.begin, index),
                        to = std::min(part.end, index + range.size());
      if (from < to) f(UnitRange{range.begin + from - index, range.begin + to - index}, from);
      index += range.size();
    }
  }

  bool operator==(const UnitRanges&) const = default;

 private:
  std::vector<UnitRange> ranges_;
};

}  // namespace cria
