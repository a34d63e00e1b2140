// Memory layout of activations.
#include "kernels/rows/activations.h"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 64 == 0; }

class Placement : public testing::TestWithParam<std::tuple<ActType, std::size_t, std::size_t>> {};

// Fills every array to its end with a byte of its own and finds them all unharmed: nothing
// overlaps, and all of it lies in bytes().
TEST_P(Placement, ArraysAreAlignedAndApart) {
  const auto [type, n_tokens, cols] = GetParam();
  Buffer<std::byte> memory(Activations::bytes(type, n_tokens, cols));
  const Activations acts = Activations::place(type, n_tokens, cols, memory.data());
  EXPECT_EQ(acts.type, type);
  EXPECT_EQ(acts.n_tokens, n_tokens);
  EXPECT_EQ(acts.cols, cols);
  EXPECT_GE(acts.q_stride(), cols * acts.value_bytes());
  EXPECT_EQ(acts.q_stride() % 64, 0U);

  struct Part {
    void* data;
    std::size_t bytes;
  };
  std::vector<Part> parts = {{acts.q, n_tokens * acts.q_stride()}};
  if (type == ActType::BF16) {
    EXPECT_EQ(acts.d, nullptr);
    EXPECT_EQ(acts.sum, nullptr);
  } else {
    parts.push_back({acts.d, n_tokens * acts.d_stride() * sizeof(float)});
    parts.push_back({acts.sum, n_tokens * acts.sum_stride() * sizeof(std::int16_t)});
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_TRUE(is_aligned(parts[i].data)) << i;
    EXPECT_LE(static_cast<std::byte*>(parts[i].data) + parts[i].bytes, memory.end()) << i;
    std::memset(parts[i].data, static_cast<int>(i) + 1, parts[i].bytes);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(parts[i].data);
    for (std::size_t k = 0; k < parts[i].bytes; ++k) ASSERT_EQ(bytes[k], i + 1);
  }
}
INSTANTIATE_TEST_SUITE_P(EveryForm, Placement,
                         testing::Combine(testing::ValuesIn(kQuantizedForms), testing::Values(1, 5),
                                          testing::Values(256, 1280)));
// Fewer values than a super-block has, and an odd number, which a zero follows.
INSTANTIATE_TEST_SUITE_P(OddWidths, Placement,
                         testing::Values(std::tuple{ActType::BF16, 1, 33},
                                         std::tuple{ActType::BF16, 5, 95},
                                         std::tuple{ActType::Q8x16, 3, 80},
                                         std::tuple{ActType::Q8x32, 1, 32},
                                         std::tuple{ActType::Q8x32, 7, 96}));

TEST(Placement, FloatsNeedNoMemory) {
  EXPECT_EQ(Activations::bytes(ActType::F32, 9, 100), 0U);
  const Activations acts = Activations::place(ActType::F32, 9, 100, nullptr);
  EXPECT_EQ(acts.type, ActType::F32);
  EXPECT_EQ(acts.q, nullptr);
}

TEST(Placement, StridesCountBlocks) {
  Buffer<std::byte> memory(Activations::bytes(ActType::Q8x256, 2, 768));
  const Activations super = Activations::place(ActType::Q8x256, 2, 768, memory.data());
  EXPECT_EQ(super.d_stride(), 3U);
  EXPECT_EQ(super.sum_stride(), 48U);
  const Activations small = Activations::place(ActType::Q8x32, 2, 96, memory.data());
  EXPECT_EQ(small.q_stride(), 192U);  // two lines, made odd
  EXPECT_EQ(small.d_stride(), 3U);
  EXPECT_EQ(small.sum_stride(), 3U);
}

}  // namespace
}  // namespace cria
