#include "tools/commands/bench_passes.h"

#include <gtest/gtest.h>

namespace cria::test {
namespace {

TEST(Median, OfAnEvenNumberIsBetweenBothInTheMiddle) {
  EXPECT_EQ(tools::median({3}), 3);
  EXPECT_EQ(tools::median({5, 1}), 3);
  EXPECT_EQ(tools::median({9, 1, 2}), 2);
  EXPECT_EQ(tools::median({8, 1, 100, 2}), 5);
}

}  // namespace
}  // namespace cria::test
