#include <gtest/gtest.h>

#include <cstring>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

/// One Q8_0 block: scale 0.5 as a half float, values -16 … 15.
std::string q8_0_block() {
  std::string block("\x00\x38", 2);
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  return block;
}

TEST(Dequant, WritesFloats) {
  std::string blocks;
  for (int i = 0; i < 3000; ++i) blocks += q8_0_block();  // more than is read at once
  const Result result = cria({"dequant", "q8_0"}, blocks);
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(result.out.size(), 3000U * 32 * sizeof(float));
  std::vector<float> values(3000UL * 32);
  std::memcpy(values.data(), result.out.data(), result.out.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], 0.5F * (static_cast<float>(i % 32) - 16)) << i;
}

TEST(Dequant, ConvertsNoBlocks) {
  const Result result = cria({"dequant", "Q4_K"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
}

/// Rows of IQ4_KS, two blocks each: the row's d, then zero bytes, which are scales of -127 and
/// values of -127.
std::string iq4_ks_rows(std::initializer_list<float> scales) {
  std::string rows;
  for (const float d : scales) {
    rows.append(reinterpret_cast<const char*>(&d), sizeof d);
    rows.append(2 * 136, '\0');
  }
  return rows;
}

TEST(Dequant, ReadsRowsWithAHeader) {
  const Result result = cria({"dequant", "IQ4_KS", "--columns", "512"}, iq4_ks_rows({1, 0.5F}));
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(result.out.size(), 2 * 512 * sizeof(float));
  std::vector<float> values(1024);
  std::memcpy(values.data(), result.out.data(), result.out.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], i < 512 ? 16129 : 8064.5F) << i;
  EXPECT_EQ(cria({"dequant", "Q8_0", "--columns", "64"}, q8_0_block() + q8_0_block()).out,
            cria({"dequant", "Q8_0"}, q8_0_block() + q8_0_block()).out);
}

TEST(Dequant, WantsToKnowHowLongSuchRowsAre) {
  const Result unsaid = cria({"dequant", "IQ4_KS"}, iq4_ks_rows({1}));
  EXPECT_EQ(unsaid.code, 2);
  EXPECT_NE(unsaid.err.find("--columns"), std::string::npos) << unsaid.err;
  for (const char* const columns : {"100", "0", "-256", "1099511627776"})
    EXPECT_EQ(cria({"dequant", "IQ4_KS", "--columns", columns}, "").code, 2) << columns;
  const Result part = cria({"dequant", "IQ4_KS", "--columns", "256"}, iq4_ks_rows({1}));
  EXPECT_EQ(part.code, 1);
  EXPECT_EQ(part.err,
            "cria: error: stdin: not whole rows: expected a multiple of 140 bytes, got 276\n");
}

TEST(Dequant, RefusesPartOfABlock) {
  const Result result = cria({"dequant", "Q8_0"}, q8_0_block() + "x");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "cria: error: stdin: not whole blocks: expected a multiple of 34 bytes, got 35\n");
}

}  // namespace
}  // namespace cria::test
