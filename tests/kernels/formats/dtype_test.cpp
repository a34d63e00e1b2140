#include "kernels/formats/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/formats/format.h"
#include "kernels/simd/round.h"

namespace cria {
namespace {

TEST(DType, FindsByIdAndByNameInAnyCase) {
  const DTypeInfo* q4_k = find_dtype(12U);
  ASSERT_NE(q4_k, nullptr);
  EXPECT_EQ(q4_k->name, "Q4_K");
  EXPECT_EQ(q4_k->block_values, 256U);
  EXPECT_EQ(q4_k->block_bytes, 144U);
  EXPECT_EQ(q4_k->row_bytes(1024), 576U);
  EXPECT_EQ(find_dtype("q4_k"), q4_k);
  EXPECT_EQ(find_dtype("Q4_k"), q4_k);
  EXPECT_EQ(&dtype_info(DType::Q4_K), q4_k);
  EXPECT_EQ(name(DType::IQ2_XXS), "IQ2_XXS");
}

TEST(DType, KnowsExactlyTheExistingIds) {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t id = 0; id < 36; ++id) {
    const DTypeInfo* row = find_dtype(id);
    if (row == nullptr) {
      missing.push_back(id);
      continue;
    }
    EXPECT_EQ(static_cast<std::uint32_t>(row->id), id);
    EXPECT_EQ(find_dtype(row->name), row);
    EXPECT_NE(row->dequantize, nullptr) << row->name;
  }
  EXPECT_EQ(missing, (std::vector<std::uint32_t>{4, 5, 31, 32, 33}));
  EXPECT_EQ(find_dtype(0xFFFFFFFFU), nullptr);
  for (const char* bad : {"", "Q4", "Q4_K_M", "Q4_KK", "f3"})
    EXPECT_EQ(find_dtype(std::string_view(bad)), nullptr);
}

TEST(DType, HasTheFormatsBlockSizes) {
  const struct {
    DType type;
    std::uint32_t values, bytes;
  } expected[] = {{DType::F32, 1, 4},        {DType::F16, 1, 2},         {DType::BF16, 1, 2},
                  {DType::F64, 1, 8},        {DType::I8, 1, 1},          {DType::I64, 1, 8},
                  {DType::Q4_0, 32, 18},     {DType::Q4_1, 32, 20},      {DType::Q5_0, 32, 22},
                  {DType::Q5_1, 32, 24},     {DType::Q8_0, 32, 34},      {DType::Q8_1, 32, 36},
                  {DType::Q2_K, 256, 84},    {DType::Q3_K, 256, 110},    {DType::Q5_K, 256, 176},
                  {DType::Q6_K, 256, 210},   {DType::Q8_K, 256, 292},    {DType::IQ2_XXS, 256, 66},
                  {DType::IQ2_XS, 256, 74},  {DType::IQ3_XXS, 256, 98},  {DType::IQ1_S, 256, 50},
                  {DType::IQ4_NL, 32, 18},   {DType::IQ3_S, 256, 110},   {DType::IQ2_S, 256, 82},
                  {DType::IQ4_XS, 256, 136}, {DType::IQ1_M, 256, 56},    {DType::TQ1_0, 256, 54},
                  {DType::TQ2_0, 256, 66},   {DType::NVFP4, 64, 36},     {DType::Q1_0, 128, 18},
                  {DType::IQ4_KS, 256, 136}, {DType::IQ2_K, 256, 76},    {DType::IQ3_K, 256, 110},
                  {DType::IQ4_K, 256, 144},  {DType::IQ5_K, 256, 176},   {DType::IQ6_K, 256, 212},
                  {DType::IQ5_KS, 256, 168}, {DType::IQ2_KS, 256, 70},   {DType::IQ3_KS, 256, 102},
                  {DType::IQ2_KL, 256, 86},  {DType::IQ4_KSS, 256, 128}, {DType::Q6_0, 32, 26},
                  {DType::IQ1_KT, 256, 56},  {DType::IQ2_KT, 256, 68},   {DType::IQ3_KT, 256, 100},
                  {DType::IQ4_KT, 256, 128}};
  for (const auto& row : expected) {
    EXPECT_EQ(dtype_info(row.type).block_values, row.values) << name(row.type);
    EXPECT_EQ(dtype_info(row.type).block_bytes, row.bytes) << name(row.type);
  }
}

TEST(DType, CountsTheHeaderOfEveryRow) {
  const DTypeInfo& info = dtype_info(DType::IQ4_KS);
  EXPECT_EQ(info.header_bytes, 4U);
  EXPECT_EQ(info.row_bytes(512), 276U);
  EXPECT_EQ(dtype_info(DType::IQ4_XS).header_bytes, 0U);
  EXPECT_EQ(dtype_info(DType::IQ4_XS).row_bytes(512), 272U);
  std::vector<std::byte> rows(2 * info.row_bytes(256));
  set_row_scale(DType::IQ4_KS, rows.data(), 1);
  set_row_scale(DType::IQ4_KS, rows.data() + info.row_bytes(256), 2);
  std::vector<float> values(512);
  info.dequantize_rows(rows.data(), values.data(), 2, 256);
  EXPECT_EQ(values[0], 127.0F * 127);  // zero bytes: scales of -127, the table's first value
  EXPECT_EQ(values[256], 2 * 127.0F * 127);
}

template <class Number>
std::vector<float> dequantize_numbers(DType type, const std::vector<Number>& values) {
  std::vector<float> out(values.size());
  dtype_info(type).dequantize(reinterpret_cast<const std::byte*>(values.data()), out.data(),
                              out.size());
  return out;
}

TEST(DType, ConvertsPlainNumbers) {
  EXPECT_EQ(dequantize_numbers<float>(DType::F32, {1.5F, -0x1p-149F}),
            (std::vector<float>{1.5F, -0x1p-149F}));
  EXPECT_EQ(dequantize_numbers<std::int8_t>(DType::I8, {-128, 127}),
            (std::vector<float>{-128, 127}));
  EXPECT_EQ(dequantize_numbers<std::int16_t>(DType::I16, {-32768, 32767}),
            (std::vector<float>{-32768, 32767}));
  EXPECT_EQ(dequantize_numbers<std::int32_t>(DType::I32, {-7, 0x7FFFFFFF}),
            (std::vector<float>{-7, 0x1p31F}));
  EXPECT_EQ(
      dequantize_numbers<std::int64_t>(DType::I64, {std::numeric_limits<std::int64_t>::min(), 3}),
      (std::vector<float>{-0x1p63F, 3}));
  EXPECT_EQ(dequantize_numbers<double>(DType::F64, {0.1, 1e300}),
            (std::vector<float>{0.1F, std::numeric_limits<float>::infinity()}));
}

// The value of a binary16 by its definition.
double half_value(unsigned half) {
  const int exponent = static_cast<int>(half >> 10 & 31), fraction = static_cast<int>(half & 1023);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000U ? -magnitude : magnitude;
}

TEST(F16, ConvertsAll65536ValuesThereAndBack) {
  for (unsigned half = 0; half < 0x10000; ++half) {
    const auto bits = static_cast<std::uint16_t>(half);
    const float value = f16_to_f32(bits);
    if ((half & 0x7FFFU) > 0x7C00U) {
      EXPECT_TRUE(std::isnan(value)) << half;
      EXPECT_EQ(f32_to_f16(value), half | 0x0200U);  // made quiet
      continue;
    }
    if ((half & 0x7FFFU) == 0x7C00U) {
      EXPECT_EQ(value, half & 0x8000U ? -HUGE_VALF : HUGE_VALF);
    } else {
      EXPECT_EQ(value, half_value(half)) << half;
    }
    EXPECT_EQ(std::signbit(value), half >= 0x8000U) << half;
    EXPECT_EQ(f32_to_f16(value), half);
  }
}

TEST(F16, ManyAtOnceAreTheSameBitsAsOne) {
  for (unsigned half = 0; half < 0x10000; ++half) {
    const auto bits = static_cast<std::uint16_t>(half);
    float value = 0;
    dtype_info(DType::F16).dequantize(reinterpret_cast<const std::byte*>(&bits), &value, 1);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(f16_to_f32(bits)))
        << half;
  }
}

TEST(F16, RoundsToNearestEven) {
  for (unsigned half = 0; half < 0x7BFF;
       ++half) {  // half and its successor are finite: probe the middle between them
    const auto low = static_cast<float>(half_value(half)),
               high = static_cast<float>(half_value(half + 1));
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(f32_to_f16(middle), half + (half & 1U)) << half;
    EXPECT_EQ(f32_to_f16(std::nextafter(middle, 0.0F)), half) << half;
    EXPECT_EQ(f32_to_f16(-std::nextafter(middle, HUGE_VALF)), 0x8000U | (half + 1)) << half;
  }
  EXPECT_EQ(f32_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(f32_to_f16(-3e38F), 0xFC00);
  EXPECT_EQ(f32_to_f16(0x1p-149F), 0);
}

TEST(BF16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(bf16_to_f32(0x3F80), 1.0F);
  EXPECT_EQ(bf16_to_f32(0x8001), -0x1p-133F);
  EXPECT_EQ(f32_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(f32_to_bf16(1.0F + 0x1p-8F), 0x3F80);             // a tie, to even
  EXPECT_EQ(f32_to_bf16(1.0F + 0x1p-8F + 0x1p-23F), 0x3F81);  // past it
  EXPECT_EQ(f32_to_bf16(1.0F + 0x3p-8F), 0x3F82);             // a tie, to even
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(f32_to_bf16(-HUGE_VALF), 0xFF80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

}  // namespace
}  // namespace cria
