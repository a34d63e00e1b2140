#include "kernels/formats/decode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/formats/formats.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

const DType kWithReferenceValues[] = {DType::F16, DType::BF16};

std::vector<char> read_fixture(const std::string& file) {
  std::ifstream in(std::string(CRIA_TEST_DATA) + "/dequant/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<float> dequantize(DType type, const void* blocks, std::size_t n) {
  std::vector<float> out(n);
  dtype_info(type).dequantize(static_cast<const std::byte*>(blocks), out.data(), n);
  return out;
}

class ReferenceValues : public testing::TestWithParam<DType> {};

// Real and random blocks with the values that the formats' authors' program gives, bit for bit.
TEST_P(ReferenceValues, AreReproducedBitForBit) {
  const std::string type(name(GetParam()));
  const auto blocks = read_fixture(type + ".blocks"), expected = read_fixture(type + ".f32");
  const std::size_t n = expected.size() / sizeof(float);
  ASSERT_GT(n, 0U);
  ASSERT_EQ(blocks.size(), dtype_info(GetParam()).bytes(n));
  const auto got = dequantize(GetParam(), blocks.data(), n);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(std::memcmp(&got[i], &expected[i * sizeof(float)], sizeof(float)), 0) << i << ": " << got[i];
  }
}

const auto type_name = [](const auto& info) { return std::string(name(info.param)); };
INSTANTIATE_TEST_SUITE_P(Quantized, ReferenceValues, testing::ValuesIn(types_where(is_integer)), type_name);
INSTANTIATE_TEST_SUITE_P(Float, ReferenceValues, testing::ValuesIn(kWithReferenceValues), type_name);

// A block of a Super256 or Blocks32 type in one form.
struct AnyBlock {
  std::vector<int> q, scale;
  std::vector<float> value;  // in double precision, rounded once
  bool has_min = false;
};

AnyBlock decode_any(DType type, const std::byte* block) {
  AnyBlock any;
  if (const Decode32Fn decode = scalar_decode32(type)) {
    Decoded32 w;
    decode(block, w);
    any.q.assign(w.q, w.q + 32);
    any.scale = {1};
    any.has_min = w.m != 0;
    for (int i = 0; i < 32; ++i) any.value.push_back(static_cast<float>(double{w.d} * w.q[i] + double{w.m}));
    return any;
  }
  Decoded256 w;
  scalar_decode256(type)(block, w);
  any.q.assign(w.q, w.q + 256);
  any.scale.assign(w.scale, w.scale + 16);
  for (const std::int16_t min : w.min) any.has_min |= min != 0;
  for (int i = 0; i < 256; ++i) {
    any.value.push_back(
        static_cast<float>(double{w.d} * w.scale[i / 16] * w.q[i] - double{w.dmin} * w.min[i / 16]));
  }
  return any;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

class HostileBlocks : public testing::TestWithParam<DType> {
 protected:
  // Blocks of one byte repeated, then random ones, at odd addresses.
  template <class Check>
  void for_each(Check check) {
    std::mt19937 random(7);
    const std::size_t bytes = dtype_info(GetParam()).block_bytes;
    std::vector<std::byte> memory(bytes + 1);
    for (int round = 0; round < 400; ++round) {
      for (std::byte& byte : memory)
        byte = static_cast<std::byte>(round < 256 ? static_cast<unsigned>(round) : random());
      check(memory.data() + 1);
    }
  }
};

TEST_P(HostileBlocks, StayWithinTheTraits) {
  const DecodeTraits traits = with_dtype(GetParam(), [](auto type) {
    if constexpr (is_integer(Format<type>::kClass)) return Format<type>::kTraits;
    return DecodeTraits{};
  });
  int q_min = 0, q_max = 0, scale_min = 1, scale_max = 1;
  bool has_min = false;
  for_each([&](const std::byte* block) {
    const AnyBlock any = decode_any(GetParam(), block);
    for (const int q : any.q) q_min = std::min(q_min, q), q_max = std::max(q_max, q);
    for (const int s : any.scale) scale_min = std::min(scale_min, s), scale_max = std::max(scale_max, s);
    if (any.scale.size() == 16 && traits.sub_block == 32) {
      for (std::size_t j = 0; j < 16; j += 2) ASSERT_EQ(any.scale[j], any.scale[j + 1]);
    }
    has_min |= any.has_min;
  });
  // 400 blocks reach every extreme, so that the traits are neither too narrow nor too wide.
  EXPECT_EQ(q_min, traits.q_min);
  EXPECT_EQ(q_max, traits.q_max);
  EXPECT_EQ(scale_min, std::min(1, traits.scale_min));
  EXPECT_EQ(scale_max, traits.scale_max);
  EXPECT_EQ(has_min, traits.has_min);
}

// The value is rounded once: products of the decoded parts are exact in float, whatever the bytes.
TEST_P(HostileBlocks, DequantizeToTheOnceRoundedValueOfTheDecode) {
  for_each([&](const std::byte* block) {
    const AnyBlock any = decode_any(GetParam(), block);
    const auto got = dequantize(GetParam(), block, any.value.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_PRED2(same, got[i], any.value[i]) << i;
  });
}
INSTANTIATE_TEST_SUITE_P(Quantized, HostileBlocks, testing::ValuesIn(types_where(is_integer)), type_name);

TEST(Decode, OffersOneDecoderPerWeightType) {
  for (std::uint32_t id = 0; id < 200; ++id) {
    const DTypeInfo* info = find_dtype(id);
    if (info == nullptr) continue;
    EXPECT_EQ(scalar_decode32(info->id) != nullptr, info->dot == DotClass::Blocks32) << info->name;
    EXPECT_EQ(scalar_decode256(info->id) != nullptr, info->dot == DotClass::Super256) << info->name;
  }
  EXPECT_EQ(scalar_decode32(static_cast<DType>(99)), nullptr);
}

TEST(Decode, KeepsExtremesOfTheScale) {
  BlockQ8_0 block{};
  block.d = 0x7BFF;  // 65504
  block.q[0] = -128;
  block.q[31] = 127;
  auto values = dequantize(DType::Q8_0, &block, 32);
  EXPECT_EQ(values[0], -65504.0F * 128);
  EXPECT_EQ(values[31], 65504.0F * 127);
  block.d = 0x0001;  // the smallest subnormal
  values = dequantize(DType::Q8_0, &block, 32);
  EXPECT_EQ(values[0], -0x1p-17F);
  EXPECT_EQ(values[31], 127 * 0x1p-24F);
  block.d = 0x7C00;  // infinity
  values = dequantize(DType::Q8_0, &block, 32);
  EXPECT_EQ(values[0], -HUGE_VALF);
  EXPECT_TRUE(std::isnan(values[1]));

  BlockIQ1_S tiny{};
  tiny.d = 0x0001;
  EXPECT_EQ(std::abs(dequantize(DType::IQ1_S, &tiny, 256)[0]),
            7 * 0x1p-27F);  // entry 0 is -1 and the shift +1/8
}

TEST(Decode, KeepsTheSignOfZeroWhereATypeHasNoOffset) {
  BlockQ4_0 block{};
  block.d = 0x8001;  // a negative scale times q = 0
  std::memset(block.lo, 0x88, sizeof block.lo);
  EXPECT_TRUE(std::signbit(dequantize(DType::Q4_0, &block, 32)[0]));
}

TEST(Decode, ReadsTernaryDigitsOfTwoTypesAlike) {
  const auto tq1 = read_fixture("TQ1_0.blocks"), tq2 = read_fixture("TQ2_0.blocks");
  ASSERT_FALSE(tq1.empty());
  EXPECT_EQ(dequantize(DType::TQ1_0, tq1.data(), 256), dequantize(DType::TQ2_0, tq2.data(), 256));
}

TEST(Decode, IgnoresTheSumsOfQ8_1AndQ8_K) {
  BlockQ8_1 small{};
  small.d = 0x3800;  // 0.5
  small.sum = 0x7E00;
  small.q[5] = -128;
  EXPECT_EQ(dequantize(DType::Q8_1, &small, 32)[5], -64.0F);
  BlockQ8_K large{};
  large.d = 0.25F;
  large.sums[0] = 77;
  large.q[255] = 3;
  EXPECT_EQ(dequantize(DType::Q8_K, &large, 256)[255], 0.75F);
  EXPECT_EQ(dequantize(DType::Q8_K, &large, 256)[0], 0.0F);
}

TEST(IqTables, SignsAreEvenAndEntriesDistinct) {
  for (unsigned seven = 0; seven < 128; ++seven) {
    EXPECT_EQ(even_signs(seven) & 127U, seven);
    EXPECT_EQ(std::popcount(even_signs(seven)) % 2, 0);
  }
  auto sorted = kIq1Grid;
  std::ranges::sort(sorted);
  EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end());
}

}  // namespace
}  // namespace cria
