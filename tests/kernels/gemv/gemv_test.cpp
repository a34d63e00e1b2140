// GEMV: products of up to nine tokens.
#include "tests/kernels/matmul/int_product_test.h"

namespace cria {
namespace {

using Gemv = IntProduct;

TEST_P(Gemv, EveryShape) {
  bool at_end = false;
  for (const std::size_t rows : {1, 3, 8, 9, 17, 33})
    for (const std::size_t blocks : {1, 2, 3, 5, 9})  // 32 columns: full and incomplete panels
      for (std::size_t tokens = 1; tokens <= 17; ++tokens, at_end = !at_end)
        expect_equal(GetParam(), {rows, blocks, tokens}, at_end, tokens % 3 == 0, random_blocks(),
                     random_values());
}

TEST_P(Gemv, EveryAlignment) {
  for (std::size_t gap = 0; gap < 64; ++gap)
    expect_equal(GetParam(), {9, 2, 1 + gap % 3}, true, false, random_blocks(), random_values(),
                 gap);
}

TEST_P(Gemv, ExtremeBytesAndActivations) {
  for (const std::size_t tokens : {1, 2, 7, 11})
    for (const int byte : {0x00, 0x7F, 0x80, 0xFF, 0x55, 0xAA})
      for (const std::uint16_t scale :
           {0x7BFF, 0xFBFF, 0x0001, 0x8001, 0x03FF, 0x0000}) {  // 65504, subnormals, zero
        expect_equal(GetParam(), {9, 2, tokens}, true, false, same_blocks(byte, scale),
                     [](std::size_t) { return 127; });
        expect_equal(GetParam(), {9, 2, tokens}, true, false, same_blocks(byte, scale),
                     [](std::size_t) { return -127; });
        expect_equal(GetParam(), {9, 2, tokens}, true, false, same_blocks(byte, scale),
                     [](std::size_t i) { return i % 2 ? 127 : -127; });
      }
  expect_equal(GetParam(), {17, 3, 3}, true, false, random_blocks(0x83FF),
               random_values());  // subnormal scales
}

TEST_P(Gemv, HandlesNanAndInfiniteScales) {
  for (const std::size_t blocks : {1, 3, 4})
    for (std::size_t tokens = 1; tokens <= 8; ++tokens)
      expect_equal(GetParam(), {33, blocks, tokens, 0, true}, tokens % 2 == 0, tokens % 3 == 0,
                   wild_blocks(), random_values());
}

TEST_P(Gemv, LongRows) {
  expect_equal(GetParam(), {11, 70, 1}, true, true, random_blocks(), random_values());
  expect_equal(GetParam(), {11, 70, 5}, false, false, random_blocks(), random_values());
}

TEST_P(Gemv, NoTokens) {
  expect_equal(GetParam(), {17, 2, 0}, true, false, random_blocks(), random_values());
}

/// 76 of 113 rows are multiplied in one call: as eight streams nine rows apart, or closer if that
/// is about a multiple of 4 KiB (RowGroups). Cases: no streams; nine, eight and seven rows apart;
/// nine, because a smaller distance is not better.
TEST_P(Gemv, LongStreams) {
  const std::size_t blocks = dtype_info(GetParam()).block_values < 256 ? 9 : 2;
  for (const std::size_t row_bytes : {0, 500, 457, 482, 4096})
    expect_equal(GetParam(), {113, blocks, 1, row_bytes}, row_bytes % 2 == 0, row_bytes == 457,
                 random_blocks(), random_values());
}

TEST_P(Gemv, RowsWithGaps) {
  for (const std::size_t tokens : {1, 2, 3, 4, 7})
    expect_equal(GetParam(), {21, 2, tokens, 433}, tokens % 2 == 0, false, random_blocks(),
                 random_values());
}

INSTANTIATE_TEST_SUITE_P(Types, Gemv, testing::ValuesIn(types_where(is_integer)),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace cria
