#include "engine/sample/sampler.h"

#include <gtest/gtest.h>

namespace cria::test {
namespace {

// The published known answers of philox4x32-10 (Random123's kat_vectors).
TEST(Philox, KnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(TokenRandom, IsUniformOverPositionsAndOverSeeds) {
  double draw = 0, exclude = 0, seeds = 0, product = 0;
  constexpr int kCount = 10000;
  for (int i = 0; i < kCount; ++i) {
    const auto random = TokenRandom::of(1, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(random.draw >= 0 && random.draw < 1 && random.exclude >= 0 && random.exclude < 1);
    draw += random.draw;
    exclude += random.exclude;
    seeds += TokenRandom::of(static_cast<std::uint64_t>(i), 0).draw;
    product += random.draw * random.exclude;
  }
  const double five = 5 * 0.2887 / 100;  // standard deviations of a mean
  EXPECT_NEAR(draw / kCount, 0.5, five);
  EXPECT_NEAR(exclude / kCount, 0.5, five);
  EXPECT_NEAR(seeds / kCount, 0.5, five);
  EXPECT_NEAR(product / kCount, 0.25, five);
}

TEST(TokenRandom, AllBitsOfSeedAndIndexCount) {
  const double first = TokenRandom::of(0, 0).draw;
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_NE(TokenRandom::of(std::uint64_t{1} << bit, 0).draw, first) << bit;
    EXPECT_NE(TokenRandom::of(0, std::uint64_t{1} << bit).draw, first) << bit;
  }
}

}  // namespace
}  // namespace cria::test
