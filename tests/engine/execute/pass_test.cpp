// Division of rows among threads and chunks.
#include "engine/execute/pass.h"

#include <gtest/gtest.h>

namespace cria {
namespace {

constexpr std::size_t kMost = 6, kUnit = 32;

/// All rows once, in order.
void expect_whole(const RowChunks& chunks, std::size_t n) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_EQ(chunks[i].begin, at);
    EXPECT_LE(chunks[i].begin, chunks[i].end);
    at = chunks[i].end;
  }
  EXPECT_EQ(at, n);
}

TEST(RowChunks, AreAllRowsInOrder) {
  for (const std::size_t threads : {1, 2, 3, 7, 64})
    for (const std::size_t n : {0, 1, 31, 32, 33, 256, 1000, 2048, 5632, 32001, 151936}) {
      SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(threads) + " threads");
      const RowChunks chunks = RowChunks::shrinking(n, threads, kMost, kUnit);
      expect_whole(chunks, n);
      EXPECT_LE(chunks.size(), threads * kMost);
      for (std::size_t i = 0; i < chunks.size(); ++i) EXPECT_EQ(chunks[i].begin % kUnit, 0);
    }
  for (const std::size_t n : {0, 1, 7, 36}) expect_whole(RowChunks::equal(n, 5), n);
}

TEST(RowChunks, AThreadsGetSmaller) {
  const RowChunks chunks = RowChunks::shrinking(5632, 2, kMost, kUnit);
  ASSERT_EQ(chunks.size(), 2 * kMost);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::size_t parts = kMost - i % kMost;  // out of 21
    EXPECT_NEAR(static_cast<double>(chunks[i].size()), 5632.0 / 2 * static_cast<double>(parts) / 21,
                kUnit);
  }
  EXPECT_EQ(chunks[kMost].begin, 5632 / 2);
}

TEST(RowChunks, DividesSmallMatricesIntoWholeUnits) {
  EXPECT_EQ(RowChunks::shrinking(64, 2, kMost, kUnit).size(), 2);
  EXPECT_EQ(RowChunks::shrinking(33, 4, kMost, kUnit).size(), 2);
  const RowChunks chunks =
      RowChunks::shrinking(2048, 16, kMost, kUnit);  // four units a thread: 2 + 1, and what is left
  ASSERT_EQ(chunks.size(), 32);
  for (std::size_t i = 0; i < chunks.size(); ++i) EXPECT_GE(chunks[i].size(), kUnit);
}

}  // namespace
}  // namespace cria
