// GEMM: products whose weights are packed into panels.
#include "tests/kernels/matmul/int_product_test.h"

namespace cria {
namespace {

using Gemm = IntProduct;

TEST_P(Gemm, EveryShape) {
  bool at_end = false;
  for (const std::size_t rows : {1, 16, 17, 40})
    for (const std::size_t tokens : {9, 33, 65, 77})
      for (const std::size_t blocks :
           {1, 3, 9, 10}) {  // panels of eight blocks of 32 that are full, and not
        expect_equal(GetParam(), {rows, blocks, tokens}, at_end, tokens % 3 == 0, random_blocks(),
                     random_values());
        at_end = !at_end;
      }
}

TEST_P(Gemm, AsManyTokensAsAKernelOfFewTakesAndMore) {
  for (const std::size_t tokens : {23, 64, 65})
    expect_equal(GetParam(), {19, 9, tokens}, true, false, random_blocks(), random_values());
}

TEST_P(Gemm, EveryNumberOfTokensAroundTheKernelsOfFew) {
  for (std::size_t tokens = 1; tokens <= 66; ++tokens)  // any alignment; incomplete panels
    expect_equal(GetParam(), {11 + tokens % 9, 9, tokens}, tokens % 2 == 0, tokens % 3 == 0,
                 random_blocks(), random_values(), tokens % 64);
}

TEST_P(Gemm, PacksLongRowsInParts) {
  expect_equal(GetParam(), {3, 240, 125}, true, false, random_blocks(), random_values());
}

TEST_P(Gemm, RowsWithGaps) {
  for (const std::size_t tokens : {5, 11, 12, 47, 66, 67})
    expect_equal(GetParam(), {37, 2, tokens, 433}, tokens % 2 == 0, tokens > 12, random_blocks(),
                 random_values());
}

/// Most results are finite: up to a third of the rows has a wild scale, and a wild f16 is rare.
TEST_P(Gemm, HandlesNanAndInfiniteScales) {
  for (const std::size_t blocks : {1, 3})
    for (const std::size_t tokens : {9, 25, 49, 66, 130})
      expect_equal(GetParam(), {37, blocks, tokens, 0, true}, tokens % 2 == 0, tokens % 3 == 0,
                   wild_blocks(), random_values());
}

TEST_P(Gemm, MoreTokensThanOnePass) {
  expect_equal(GetParam(), {33, 2, 600}, true, true, random_blocks(), random_values());
  expect_equal(GetParam(), {5, 2, 509}, true, true, random_blocks(), random_values());
  expect_equal(GetParam(), {5, 1, 1101, 600}, true, true, random_blocks(), random_values());
}

TEST_P(Gemm, ExtremeBytesAndActivations) {
  const auto all_equal = [](auto fill, auto q) {
    expect_equal(GetParam(), {17, 9, 66}, true, false, fill, q);
  };
  for (const int byte : {0x00, 0x7F, 0x80, 0xFF, 0x55, 0xAA})
    for (const std::uint16_t scale :
         {0x7BFF, 0xFBFF, 0x0001, 0x03FF, 0x0000}) {  // 65504, subnormals, zero
      all_equal(same_blocks(byte, scale), [](std::size_t) { return 127; });
      all_equal(same_blocks(byte, scale), [](std::size_t) { return -127; });
      all_equal(same_blocks(byte, scale), [](std::size_t i) { return i % 2 ? 127 : -127; });
    }
  all_equal(random_blocks(0x83FF), random_values());  // subnormal scales
}

/// Activations that have the signs of the weights, so that sums of few products become as large as
/// they can.
TEST_P(Gemm, SumsAsLargeAsTheyGet) {
  const DTypeInfo& info = dtype_info(GetParam());
  const std::size_t n = info.block_values;
  std::vector<std::byte> row(info.row_bytes(n));
  const auto fill = random_blocks();
  for (int i = 0; i < 40; ++i) {
    fill(row.data() + info.header_bytes);
    set_row_scale(GetParam(), row.data(), 1.5F);
    std::vector<std::int8_t> q;
    const auto append = [&]<class Group>(void (*decode)(const std::byte*, std::size_t, Group&)) {
      Group group;
      for (std::size_t g = 0; decode != nullptr && q.size() < n; ++g) {
        decode(row.data(), g, group);
        q.insert(q.end(), std::begin(group.q), std::end(group.q));
      }
    };
    append(scalar_decode16(GetParam()));
    append(scalar_decode32(GetParam()));
    append(scalar_decode256(GetParam()));
    ASSERT_EQ(q.size(), n);
    const auto same = [&](std::byte* block) {
      std::memcpy(block, row.data() + info.header_bytes, info.block_bytes);
    };
    expect_equal(GetParam(), {17, 2, 65}, true, false, same,
                 [&](std::size_t k) { return q[k % n] < 0 ? -127 : 127; });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Gemm, testing::ValuesIn(types_where(is_integer)),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace cria
