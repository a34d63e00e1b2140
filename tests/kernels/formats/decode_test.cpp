#include "kernels/formats/format.h"

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
  const DTypeInfo& info = dtype_info(GetParam());
  const std::size_t cols = info.header_bytes == 0 ? n : 512;  // as the fixture's rows are
  ASSERT_EQ(blocks.size(), n / cols * info.row_bytes(cols));
  std::vector<float> got(n);
  info.dequantize_rows(reinterpret_cast<const std::byte*>(blocks.data()), got.data(), n / cols,
                       cols);
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(std::memcmp(&got[i], &expected[i * sizeof(float)], sizeof(float)), 0)
        << i << ": " << got[i];
  }
}

/// The types whose rows lie together in units.
std::vector<DType> interleaved_types() {
  std::vector<DType> types;
  std::ranges::copy_if(all_types(), std::back_inserter(types),
                       [](DType type) { return dtype_info(type).deinterleave != nullptr; });
  return types;
}

class InterleavedValues : public testing::TestWithParam<DType> {};

// A unit, and the rows that it is put in order as.
TEST_P(InterleavedValues, AreReproducedBitForBit) {
  const DTypeInfo &info = dtype_info(GetParam()), &plain = dtype_info(info.plain);
  const auto unit = read_fixture(std::string(info.name) + ".blocks"),
             expected = read_fixture(std::string(info.name) + ".f32");
  constexpr std::size_t kCols = 512;
  const std::size_t rows = info.interleaved_rows;
  ASSERT_EQ(expected.size(), rows * kCols * sizeof(float));
  ASSERT_EQ(unit.size(), rows * info.row_bytes(kCols));
  std::vector<std::byte> ordered(rows * plain.row_bytes(kCols));
  info.deinterleave(reinterpret_cast<const std::byte*>(unit.data()), kCols, ordered.data());
  std::vector<float> values(rows * kCols), of_unit(values.size());
  plain.dequantize_rows(ordered.data(), values.data(), rows, kCols);
  info.dequantize_rows(reinterpret_cast<const std::byte*>(unit.data()), of_unit.data(), rows,
                       kCols);
  EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0);
  EXPECT_EQ(std::memcmp(of_unit.data(), expected.data(), expected.size()), 0);
}

const auto type_name = [](const auto& info) { return std::string(name(info.param)); };
INSTANTIATE_TEST_SUITE_P(Quantized, ReferenceValues, testing::ValuesIn(types_where(is_integer)),
                         type_name);
INSTANTIATE_TEST_SUITE_P(Interleaved, InterleavedValues, testing::ValuesIn(interleaved_types()),
                         type_name);
INSTANTIATE_TEST_SUITE_P(Float, ReferenceValues, testing::ValuesIn(kWithReferenceValues),
                         type_name);

// The first group of a row in one form.
struct AnyBlock {
  std::vector<int> q, scale;
  std::vector<float> value;  // in double precision, rounded once
  bool has_min = false;
};

template <int n>
AnyBlock any_group(const DecodedGroup<n>& w) {
  AnyBlock any;
  any.q.assign(w.q, w.q + n);
  any.scale = {1};
  any.has_min = w.m != 0;
  for (int i = 0; i < n; ++i)
    any.value.push_back(static_cast<float>(double{w.d} * w.q[i] + double{w.m}));
  return any;
}

AnyBlock decode_any(DType type, const std::byte* row, std::size_t group) {
  if (const Decode16Fn decode = scalar_decode16(type)) {
    Decoded16 w;
    decode(row, group, w);
    return any_group(w);
  }
  if (const Decode32Fn decode = scalar_decode32(type)) {
    Decoded32 w;
    decode(row, group, w);
    return any_group(w);
  }
  AnyBlock any;
  Decoded256 w;
  scalar_decode256(type)(row, group, w);
  any.q.assign(w.q, w.q + 256);
  any.scale.assign(w.scale, w.scale + 16);
  for (const std::int16_t min : w.min) any.has_min |= min != 0;
  for (int i = 0; i < 256; ++i) {
    any.value.push_back(static_cast<float>(double{w.d} * w.scale[i / 16] * w.q[i] -
                                           double{w.dmin} * w.min[i / 16]));
  }
  return any;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

class HostileBlocks : public testing::TestWithParam<DType> {
 protected:
  // Rows of one block of one byte repeated, then random ones, at odd addresses. A header says 1:
  // then the value is rounded once there, too.
  template <class Check>
  void for_each(Check check) {
    std::mt19937 random(7);
    const DTypeInfo& info = dtype_info(GetParam());
    std::vector<std::byte> memory(info.row_bytes(info.block_values) + 1);
    for (int round = 0; round < 400; ++round) {
      for (std::byte& byte : memory)
        byte = static_cast<std::byte>(round < 256 ? static_cast<unsigned>(round) : random());
      set_row_scale(GetParam(), memory.data() + 1, 1);
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
    const AnyBlock any = decode_any(GetParam(), block, 0);
    for (const int q : any.q) q_min = std::min(q_min, q), q_max = std::max(q_max, q);
    for (const int s : any.scale)
      scale_min = std::min(scale_min, s), scale_max = std::max(scale_max, s);
    if (any.scale.size() == 16 && traits.sub_block == 32) {
      for (std::size_t j = 0; j < 16; j += 2) ASSERT_EQ(any.scale[j], any.scale[j + 1]);
    }
    has_min |= any.has_min;
  });
  // 400 blocks reach every extreme, so that the traits are neither too narrow nor too wide; but one
  // value in thousands is a trellis's extreme.
  const bool rare = with_dtype(GetParam(), [](auto type) { return kTrellis<type>; });
  EXPECT_GE(q_min, traits.q_min);
  EXPECT_LE(q_max, traits.q_max);
  EXPECT_LE(q_min, traits.q_min + (rare ? 12 : 0));
  EXPECT_GE(q_max, traits.q_max - (rare ? 12 : 0));
  EXPECT_EQ(scale_min, std::min(1, traits.scale_min));
  EXPECT_EQ(scale_max, traits.scale_max);
  EXPECT_EQ(has_min, traits.has_min);
}

// The value is rounded once: products of the decoded parts are exact in float, whatever the bytes.
TEST_P(HostileBlocks, DequantizeToTheOnceRoundedValueOfTheDecode) {
  for_each([&](const std::byte* row) {
    const auto got = dequantize(GetParam(), row, dtype_info(GetParam()).block_values);
    std::size_t i = 0;
    for (std::size_t group = 0; i < got.size(); ++group)
      for (const float value : decode_any(GetParam(), row, group).value)
        ASSERT_PRED2(same, got[i++], value) << i;
  });
}
INSTANTIATE_TEST_SUITE_P(Quantized, HostileBlocks, testing::ValuesIn(types_where(is_integer)),
                         type_name);

TEST(Decode, OffersOneDecoderPerWeightType) {
  for (std::uint32_t id = 0; id < 200; ++id) {
    const DTypeInfo* info = find_dtype(id);
    if (info == nullptr) continue;
    EXPECT_EQ(scalar_decode16(info->id) != nullptr, info->dot == DotClass::Blocks16) << info->name;
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

TEST(Decode, ReadsEveryUe4m3) {
  for (int byte = 0; byte < 256; ++byte) {
    BlockNVFP4 block{};
    block.e[2] = static_cast<std::uint8_t>(byte);
    block.lo[2][7] = 0x10;  // value 15 is 0.5
    const int exponent = byte >> 3 & 15, fraction = byte & 7;
    const double scale = byte == 0x7F    ? 0
                         : exponent == 0 ? std::ldexp(fraction, -9)
                                         : std::ldexp(8 + fraction, exponent - 10);
    EXPECT_EQ(dequantize(DType::NVFP4, &block, 64)[47], scale / 2) << byte;
  }
}

TEST(Ue4m3, NearestByteIsNearest) {
  for (const float d : {1e-9F, 0.0004F, 0.0012F, 0.01F, 0.3F, 1.0F, 100.0F, 1e9F}) {
    const float got = std::abs(kHalfOfUe4m3[ue4m3_of_half(d)] - d);
    for (std::size_t byte = 0; byte <= kLargestUe4m3; ++byte)
      EXPECT_LE(got, std::abs(kHalfOfUe4m3[byte] - d));
  }
  EXPECT_EQ(ue4m3_of_half(-1), 0);
}

TEST(Decode, KeepsTheSignOfZeroWhereATypeHasNoOffset) {
  BlockQ4_0 block{};
  block.d = 0x8001;  // a negative scale times q = 0
  std::memset(block.lo, 0x88, sizeof block.lo);
  EXPECT_TRUE(std::signbit(dequantize(DType::Q4_0, &block, 32)[0]));
}

TEST(Decode, TernaryTypesAgree) {
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
