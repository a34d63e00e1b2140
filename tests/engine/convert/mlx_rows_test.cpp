// Weights as MLX packs them, written here by a packer of another make: bits of a row as one long
// number.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "engine/convert/row_stream.h"
#include "kernels/simd/round.h"

namespace cria::test {
namespace {

constexpr std::uint64_t kMlxRows = 5, kMlxCols = 192;

/// A matrix of random codes, and its three tensors.
struct MlxPacked {
  MlxPacking packing;
  std::vector<std::uint32_t> codes, words;
  std::vector<std::uint16_t> scales16, biases16;
  std::vector<float> scales, biases;
  SafeTensor weight, scale, bias;

  MlxPacked(std::uint32_t bits, std::uint32_t group, const char* type) : packing{group, bits} {
    std::mt19937 random(bits * 1000 + group);
    for (std::uint64_t i = 0; i < kMlxRows * kMlxCols; ++i)
      codes.push_back(random() & ((1U << bits) - 1));
    const std::uint64_t row_words = kMlxCols * bits / 32;
    words.resize(kMlxRows * row_words);
    for (std::uint64_t i = 0; i < codes.size(); ++i) {
      for (std::uint32_t b = 0; b < bits; ++b) {
        const std::uint64_t bit = i % kMlxCols * bits + b;
        words[i / kMlxCols * row_words + bit / 32] |= (codes[i] >> b & 1U) << bit % 32;
      }
    }
    for (std::uint64_t i = 0; i < kMlxRows * kMlxCols / group; ++i) {
      // Scales with a sign, as MLX has them; bfloat16 keeps eight bits, which f16 holds too.
      const float s = bf16_to_f32(f32_to_bf16(
          std::ldexp(0.5F + static_cast<float>(random() % 200) / 400, -6) * (i % 3 == 0 ? -1 : 1)));
      const float m = bf16_to_f32(f32_to_bf16(static_cast<float>(random() % 1000) / 3000 - 0.2F));
      scales.push_back(s);
      biases.push_back(m);
      const bool half = std::string_view(type) == "F16";
      scales16.push_back(half ? f32_to_f16(s) : f32_to_bf16(s));
      biases16.push_back(half ? f32_to_f16(m) : f32_to_bf16(m));
    }
    const bool wide = std::string_view(type) == "F32";
    weight = {"w.weight",
              find_safetensors_type("U32"),
              {kMlxRows, row_words},
              std::as_bytes(std::span(words))};
    const std::vector<std::uint64_t> groups = {kMlxRows, kMlxCols / group};
    scale = {"w.scales", find_safetensors_type(type), groups,
             wide ? std::as_bytes(std::span(scales)) : std::as_bytes(std::span(scales16))};
    bias = {"w.biases", find_safetensors_type(type), groups,
            wide ? std::as_bytes(std::span(biases)) : std::as_bytes(std::span(biases16))};
  }
  MlxPacked(const MlxPacked&) = delete;
  MlxPacked& operator=(const MlxPacked&) = delete;

  [[nodiscard]] float value(std::uint64_t row, std::uint64_t col) const {
    const std::uint64_t group = (row * kMlxCols + col) / packing.group_size;
    return scales[group] * static_cast<float>(codes[row * kMlxCols + col]) + biases[group];
  }
  [[nodiscard]] std::unique_ptr<WeightRows> rows() const {
    return mlx_rows(weight, scale, bias, packing, kMlxRows, kMlxCols);
  }
};

class EveryWidth : public testing::TestWithParam<std::uint32_t> {};

TEST_P(EveryWidth, IsTheAffineFormulaToTheBit) {
  for (const std::uint32_t group : {16U, 24U, 32U, 48U, 64U, 96U, 192U}) {
    for (const char* type : {"F16", "BF16", "F32"}) {
      const MlxPacked packed(GetParam(), group, type);
      const auto rows = packed.rows();
      std::vector<float> row(kMlxCols);
      for (std::uint64_t r = 0; r < kMlxRows; ++r) {
        rows->read(r, row.data());
        for (std::uint64_t c = 0; c < kMlxCols; ++c)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(row[c]),
                    std::bit_cast<std::uint32_t>(packed.value(r, c)))
              << group << " " << type << " row " << r << " col " << c;
      }
    }
  }
}

TEST_P(EveryWidth, NearestBlocksSayTheSameWhereTheyCan) {
  for (const std::uint32_t group : {24U, 32U, 64U}) {
    const MlxPacked packed(GetParam(), group, "BF16");
    const auto rows = packed.rows();
    const DType type = rows->nearest();
    const bool same = GetParam() <= 5 && group % 32 == 0;
    EXPECT_EQ(type, same && GetParam() <= 4 ? DType::Q4_1
                    : same                  ? DType::Q5_1
                    : GetParam() == 8       ? DType::Q8_0
                                            : DType::BF16);
    std::vector<std::byte> blocks(dtype_info(type).row_bytes(kMlxCols));
    EXPECT_EQ(rows->copy(3, type, blocks.data()), same);
    EXPECT_FALSE(rows->copy(3, DType::F16, blocks.data()));
    if (!same) continue;
    std::vector<float> row(kMlxCols);
    dtype_info(type).dequantize(blocks.data(), row.data(), kMlxCols);
    for (std::uint64_t c = 0; c < kMlxCols; ++c) ASSERT_NEAR(row[c], packed.value(3, c), 1e-7) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, EveryWidth, testing::Values(2, 3, 4, 5, 6, 8));

std::string mlx_error_of(const MlxPacked& p, const SafeTensor& weight, const SafeTensor& scale,
                         const SafeTensor& bias) {
  try {
    mlx_rows(weight, scale, bias, p.packing, kMlxRows, kMlxCols);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MlxRows, RejectsMismatchedShapes) {
  const MlxPacked p(4, 64, "F16");
  SafeTensor bad = p.weight;
  bad.type = find_safetensors_type("I32");
  EXPECT_NE(mlx_error_of(p, bad, p.scale, p.bias).find("expected U32, got I32 (tensor w.weight)"),
            std::string::npos);
  EXPECT_NE(mlx_error_of(p, p.scale, p.scale, p.bias), "");
  bad = p.weight;
  bad.shape = {kMlxRows, 23};
  EXPECT_NE(mlx_error_of(p, bad, p.scale, p.bias).find("expected [5, 24], got [5, 23]"),
            std::string::npos);
  bad = p.scale;
  bad.shape = {kMlxRows * 3};
  EXPECT_NE(
      mlx_error_of(p, p.weight, bad, p.bias).find("expected [5, 3], got [15] (tensor w.scales)"),
      std::string::npos);
  EXPECT_NE(mlx_error_of(p, p.weight, p.scale, p.weight).find("(tensor w.weight)"),
            std::string::npos);
  MlxPacked other(4, 64, "F16");
  other.packing.group_size = 80;
  EXPECT_NE(mlx_error_of(other, other.weight, other.scale, other.bias)
                .find("are not divisible into groups of 80"),
            std::string::npos);
}

/// Returns the bytes that a stream writes for a matrix.
std::vector<std::byte> streamed(const RowJob& job, unsigned threads) {
  std::vector<std::byte> out;
  RowStream stream(*active_kernels(), threads);
  stream.write(job, [&](std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
  });
  return out;
}

TEST(RowStream, OrderTypesAndThreads) {
  const MlxPacked packed(8, 64, "F32");
  std::vector<WeightRowsPtr> parts;
  parts.push_back(packed.rows());
  const auto rows = arranged_rows(std::move(parts), kMlxRows,
                                  [](std::uint64_t row) { return kMlxRows - 1 - row; });
  RowJob job{.file = "f", .name = "w", .rows = rows.get(), .type = DType::F32};
  const std::vector<std::byte> bytes = streamed(job, 1);
  ASSERT_EQ(bytes.size(), kMlxRows * kMlxCols * sizeof(float));
  for (std::uint64_t i = 0; i < kMlxRows * kMlxCols; ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    ASSERT_EQ(value, packed.value(kMlxRows - 1 - i / kMlxCols, i % kMlxCols)) << i;
  }
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0}) {
    job.type = type;
    EXPECT_EQ(streamed(job, 1), streamed(job, 3)) << name(type);
  }
}

TEST(RowStream, MeasuresTheErrorOfRequantizing) {
  const MlxPacked packed(8, 64, "F32");
  const auto rows = packed.rows();
  RowJob job{.file = "f", .name = "w", .rows = rows.get(), .type = DType::F16, .measure = true};
  std::vector<std::byte> bytes;
  const FormError error =
      RowStream(*active_kernels(), 2).write(job, [&](std::span<const std::byte> piece) {
        bytes.assign(piece.begin(), piece.end());
      });
  double squares = 0, difference = 0;
  for (std::uint64_t i = 0; i < kMlxRows * kMlxCols; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * 2, 2);
    const double value = packed.value(i / kMlxCols, i % kMlxCols);
    squares += value * value;
    difference += (value - f16_to_f32(half)) * (value - f16_to_f32(half));
  }
  EXPECT_GT(difference, 0);
  EXPECT_NEAR(error.relative(), std::sqrt(difference / squares), 1e-12);
  job.type = DType::F32;
  EXPECT_EQ(RowStream(*active_kernels(), 2).write(job, [](auto) {}).relative(), 0);
}

TEST(RowStream, RejectsValuesOutOfRange) {
  const auto error_with = [](float value, DType type) {
    std::vector<float> values = {1, value};
    const SafeTensor tensor{
        "x", find_safetensors_type("F32"), {1, 2}, std::as_bytes(std::span(values))};
    const auto rows = float_rows(tensor, 1, 2);
    try {
      RowStream(*active_kernels(), 1)
          .write({.file = "f", .name = "x", .rows = rows.get(), .type = type}, [](auto) {});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_with(65504, DType::F16), "");
  EXPECT_NE(error_with(-65505, DType::F16).find("F16 cannot hold a value"), std::string::npos);
  EXPECT_EQ(error_with(-65505, DType::BF16), "");
  EXPECT_EQ(error_with(0x1.FEFFFEp127F, DType::BF16), "");
  EXPECT_NE(error_with(-0x1.FFp127F, DType::BF16).find("BF16 cannot hold a value"),
            std::string::npos);
  EXPECT_NE(error_with(std::nanf(""), DType::BF16).find("expected finite numbers"),
            std::string::npos);
  EXPECT_EQ(error_with(std::nanf(""), DType::F32), "") << "a copy";
}

TEST(FloatRows, OtherTypesAreNamed) {
  const SafeTensor tensor{"x", find_safetensors_type("F8_E4M3"), {0, 2}, {}};
  try {
    float_rows(tensor, 0, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "unsupported type: expected F64, F32, F16 or BF16, got F8_E4M3 (tensor x)");
  }
}

}  // namespace
}  // namespace cria::test
