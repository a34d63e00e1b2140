#include "engine/graph/unit_ranges.h"

#include <gtest/gtest.h>

#include "engine/graph/graph.h"

namespace cria::test {
namespace {

UnitRanges ranges_of(std::initializer_list<UnitRange> ranges) {
  UnitRanges all;
  for (const UnitRange& range : ranges) all.add(range);
  return all;
}

TEST(UnitRanges, MergeWhatOverlapsOrTouches) {
  const UnitRanges all = ranges_of({{8, 10}, {2, 4}, {5, 5}, {12, 14}, {4, 5}, {9, 12}, {20, 21}});
  EXPECT_EQ(std::vector(all.begin(), all.end()),
            (std::vector<UnitRange>{{2, 5}, {8, 14}, {20, 21}}));
  EXPECT_EQ(all.size(), 10U);
  EXPECT_EQ(ranges_of({{8, 10}, {2, 4}, {0, 20}}), UnitRanges({0, 20}));
  EXPECT_TRUE(all.contain(ranges_of({{3, 5}, {8, 9}, {20, 21}})));
  EXPECT_FALSE(all.contain(ranges_of({{3, 6}})));
  EXPECT_TRUE(all.contain({}));
  EXPECT_EQ(UnitRanges().range(), UnitRange());
}

TEST(UnitRanges, CountUnitsInOrder) {
  const UnitRanges all = ranges_of({{2, 5}, {8, 14}});
  EXPECT_EQ(all[0], 2U);
  EXPECT_EQ(all[2], 4U);
  EXPECT_EQ(all[3], 8U);
  EXPECT_EQ(all[9], 14U);
  std::vector<std::pair<UnitRange, std::size_t>> seen;
  const auto see = [&](UnitRange range, std::size_t index) { seen.emplace_back(range, index); };
  all.for_each({1, 5}, see);
  EXPECT_EQ(seen, (std::vector<std::pair<UnitRange, std::size_t>>{{{3, 5}, 1}, {{8, 10}, 3}}));
  seen.clear();
  all.for_each({3, 3}, see);
  EXPECT_TRUE(seen.empty());
}

// Heads of values that share keys: neighbours, or in turn.
TEST(UnitRead, FindsTheColumnsOfUnits) {
  EXPECT_EQ((UnitRead{0, 100, 4}.columns(ranges_of({{1, 3}, {5, 6}}))),
            ranges_of({{104, 112}, {120, 124}}));
  EXPECT_EQ((UnitRead{0, 100, 4, 10}.columns(ranges_of({{1, 3}}))),
            ranges_of({{110, 114}, {120, 124}}));
  EXPECT_EQ((UnitRead{0, 0, 4, 4, 3}.columns(ranges_of({{2, 5}}))), ranges_of({{0, 8}}));
  EXPECT_EQ((UnitRead{0, 0, 4, 4, 1, 6}.columns(ranges_of({{5, 8}}))),
            ranges_of({{0, 8}, {20, 24}}));
}

}  // namespace
}  // namespace cria::test
