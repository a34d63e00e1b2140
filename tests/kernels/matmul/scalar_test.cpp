// The reference product: against double precision with a derived bound, and its order of operations
// in cases where only that order gives the expected bits.
#include "kernels/kernels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>

#include "kernels/formats/formats.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

constexpr double kRounding = 0x1p-24;  // largest relative error of one float operation

std::vector<std::byte> fixture_blocks(DType type) {
  std::ifstream in(std::string(CRIA_TEST_DATA) + "/dequant/" + std::string(name(type)) + ".blocks",
                   std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

// One product with everything it needs: weights at an odd address with a gap
// between rows, outputs with a gap between tokens.
struct Product {
  DType type;
  std::size_t rows, cols, n_tokens;
  std::size_t row_bytes = dtype_info(type).row_bytes(cols) + 3;
  std::vector<std::byte> weights = std::vector<std::byte>(rows * row_bytes + 1);
  Buffer<float> x{n_tokens * cols};
  Buffer<std::byte> memory{Activations::bytes(scalar_matmul(type).act, n_tokens, cols)};
  Activations acts = Activations::place(scalar_matmul(type).act, n_tokens, cols, memory.data());
  std::size_t out_stride = rows + 5;
  std::vector<float> out = std::vector<float>(n_tokens * out_stride, -1234.0F);

  std::byte* row(std::size_t r) { return weights.data() + 1 + r * row_bytes; }

  void quantize() {
    acts.f32 = x.data();
    acts.f32_stride = cols;
    scalar_kernels().quantize(x.data(), cols, acts, 0, n_tokens, 0, cols);
  }
  void run(std::size_t begin, std::size_t end, const float* residual = nullptr) {
    const MatMulJob job{weights.data() + 1, row_bytes,  rows,    cols, &acts,
                        out.data(),         out_stride, residual};
    scalar_matmul(type).run(job, begin, end, nullptr);
  }
  // Activation i of a token as the product sees it.
  [[nodiscard]] double activation(std::size_t t, std::size_t i) const {
    if (acts.type == ActType::F32) return x[t * cols + i];
    if (acts.type == ActType::BF16) {
      std::uint16_t bits;
      std::memcpy(&bits, acts.q + t * acts.q_stride() + 2 * i, sizeof bits);
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }
    const std::size_t block = acts.values_per_d();
    return double{acts.d[t * acts.d_stride() + i / block]} * acts.q[t * acts.q_stride() + i];
  }
};

// Rows made of the fixture's blocks in changing order, random activations.
Product make_product(DType type, std::size_t rows, std::size_t cols, std::size_t n_tokens) {
  Product p{type, rows, cols, n_tokens};
  const std::vector<std::byte> blocks = fixture_blocks(type);
  const std::size_t bytes = dtype_info(type).block_bytes, header = dtype_info(type).header_bytes;
  const std::size_t n_blocks =
      (blocks.size() - header) / bytes;  // blocks of a row, or of several without headers
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t b = 0; b < cols / dtype_info(type).block_values; ++b) {
      const std::size_t pick = (r * 7 + b * (r + 1)) % n_blocks;
      std::memcpy(p.row(r) + header + b * bytes, blocks.data() + header + pick * bytes, bytes);
    }
    set_row_scale(type, p.row(r), 0.5F + static_cast<float>(r));
  }
  fill_random(p.x.data(), p.x.size(), 5);
  p.quantize();
  return p;
}

// The parts |a| + |b| of weights d*q + m or d*scale*q - dmin*min:
// what the partial sums of a product are made of.
std::vector<double> magnitudes(DType type, const std::byte* row, std::size_t cols) {
  std::vector<double> sizes;
  for (std::size_t b = 0; sizes.size() < cols; ++b) {
    if (const Decode16Fn decode = scalar_decode16(type)) {
      Decoded16 w;
      decode(row, b, w);
      for (const std::int8_t q : w.q) sizes.push_back(std::abs(double{w.d} * q));
    } else if (const Decode32Fn decode_group = scalar_decode32(type)) {
      Decoded32 w;
      decode_group(row, b, w);
      for (const std::int8_t q : w.q)
        sizes.push_back(std::abs(double{w.d} * q) + std::abs(double{w.m}));
    } else if (const Decode256Fn decode_super = scalar_decode256(type)) {
      Decoded256 w;
      decode_super(row, b, w);
      for (int i = 0; i < 256; ++i) {
        sizes.push_back(std::abs(double{w.d} * w.scale[i / 16] * w.q[i]) +
                        std::abs(double{w.dmin} * w.min[i / 16]));
      }
    } else {
      float value;
      dtype_info(type).dequantize(row + b * dtype_info(type).block_bytes, &value, 1);
      sizes.push_back(std::abs(double{value}));
    }
  }
  return sizes;
}

class ScalarProduct : public testing::TestWithParam<DType> {
 protected:
  DType type_ = GetParam();
  bool is_float_ = dtype_info(type_).is_float();
  std::size_t cols_ = is_float_ ? 45 : 1024;  // 45: a tail
};

// Bound: the terms' magnitudes total up to S = Σ (|a|+|b|)·|x|. Each term is rounded once for its
// scale, once for its integer or the product with m, and once per later FMA or addition. The
// dequantized weights of the exact sum carry one more rounding.
TEST_P(ScalarProduct, IsWithinItsRoundingOfTheExactProduct) {
  Product p = make_product(type_, 9, cols_, 19);
  p.run(0, p.rows);
  const double operations =
      is_float_ ? 4 + 4 : 2.0 * static_cast<double>(cols_ / p.acts.values_per_d());
  std::vector<float> w(cols_);
  for (std::size_t r = 0; r < p.rows; ++r) {
    dtype_info(type_).dequantize(p.row(r), w.data(), cols_);
    const auto size = magnitudes(type_, p.row(r), cols_);
    for (std::size_t t = 0; t < p.n_tokens; ++t) {
      double exact = 0, sum = 0;
      for (std::size_t i = 0; i < cols_; ++i) {
        exact += double{w[i]} * p.activation(t, i);
        sum += size[i] * std::abs(p.activation(t, i));
      }
      ASSERT_GT(sum, 0);
      ASSERT_NEAR(p.out[t * p.out_stride + r], exact, 1.0001 * (operations + 3) * kRounding * sum)
          << "row " << r << " token " << t;
    }
  }
}

// The quantized activations are the given ones within half a step: 0.5·d, or 2^-8 of a bfloat16.
TEST_P(ScalarProduct, IsWithinHalfAStepOfTheProductWithUnquantizedActivations) {
  Product p = make_product(type_, 3, cols_, 2);
  const std::size_t block = p.acts.values_per_d();
  for (std::size_t t = 0; t < p.n_tokens; ++t) {
    for (std::size_t i = 0; i < cols_; ++i) {
      const double x = p.x[t * cols_ + i];
      if (is_float_) {
        ASSERT_NEAR(p.activation(t, i), x, p.acts.type == ActType::BF16 ? std::abs(x) * 0x1p-8 : 0);
        continue;
      }
      const double d = p.acts.d[t * p.acts.d_stride() + i / block];
      ASSERT_NEAR(p.activation(t, i), x, 0.5 * d * (1 + 127 * 4 * kRounding)) << i;
    }
  }
}

TEST_P(ScalarProduct, WritesOnlyItsRowRange) {
  Product whole = make_product(type_, 9, cols_, 17);
  whole.run(0, 9);
  Product parts = make_product(type_, 9, cols_, 17);
  parts.run(4, 8);
  for (std::size_t t = 0; t < 17; ++t) {
    for (std::size_t r = 0; r < parts.out_stride; ++r) {
      if (r >= 4 && r < 8) continue;
      ASSERT_EQ(parts.out[t * parts.out_stride + r], -1234.0F);
    }
  }
  parts.run(8, 9);
  parts.run(0, 4);
  EXPECT_EQ(parts.out, whole.out);
}

TEST_P(ScalarProduct, AddsTheResidualAfterTheProduct) {
  Product p = make_product(type_, 4, cols_, 3);
  p.run(0, 4);
  std::vector<float> residual(p.out.size()), expected = p.out;
  fill_random(residual.data(), residual.size(), 9, 100);
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t r = 0; r < 4; ++r)
      expected[t * p.out_stride + r] += residual[t * p.out_stride + r];
  }
  const std::vector<float> plain = p.out;
  p.run(0, 4, residual.data());
  EXPECT_EQ(p.out, expected);
  EXPECT_NE(p.out, plain);

  std::copy(residual.begin(), residual.end(), p.out.begin());  // in place
  p.run(0, 4, p.out.data());
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t r = 0; r < 4; ++r)
      EXPECT_EQ(p.out[t * p.out_stride + r], expected[t * p.out_stride + r]);
  }
}

const auto weight_type_name = [](const auto& info) { return std::string(name(info.param)); };
INSTANTIATE_TEST_SUITE_P(Types, ScalarProduct, testing::ValuesIn([] {
                           auto types =
                               types_where([](DotClass dot) { return dot != DotClass::None; });
                           std::erase(types, DType::F32);  // has no fixture of blocks
                           return types;
                         }()),
                         weight_type_name);

TEST(ScalarMatMul, NamesActivationsByClassAndRefusesOtherTypes) {
  EXPECT_EQ(scalar_matmul(DType::F32).act, ActType::F32);
  EXPECT_EQ(scalar_matmul(DType::BF16).act, ActType::BF16);
  EXPECT_EQ(scalar_matmul(DType::NVFP4).act, ActType::Q8x16);
  EXPECT_EQ(scalar_matmul(DType::IQ4_NL).act, ActType::Q8x32);
  EXPECT_EQ(scalar_matmul(DType::TQ1_0).act, ActType::Q8x256);
  for (const DType type :
       {DType::I8, DType::I64, DType::F64, DType::Q8_1, DType::Q8_K, static_cast<DType>(31)}) {
    EXPECT_EQ(scalar_matmul(type).run, nullptr);
    EXPECT_EQ(scalar_matmul(type).act, ActType::None);
  }
}

// One row of Q8_0 blocks with one token whose blocks have d = 1; every x block starts 127, 127, 1,
// 0 …
float q8_0_product(std::initializer_list<std::array<float, 4>> blocks) {  // d, q[0], q[1], q[2]
  Product p{DType::Q8_0, 1, 32 * blocks.size(), 1};
  std::size_t b = 0;
  for (const auto& [d, q0, q1, q2] : blocks) {
    BlockQ8_0 block{};
    block.d = f32_to_f16(d);
    block.q[0] = static_cast<std::int8_t>(q0);
    block.q[1] = static_cast<std::int8_t>(q1);
    block.q[2] = static_cast<std::int8_t>(q2);
    std::memcpy(p.row(0) + b * sizeof block, &block, sizeof block);
    p.x[32 * b] = p.x[32 * b + 1] = 127;
    p.x[32 * b + 2] = 1;
    ++b;
  }
  p.quantize();
  p.run(0, 1);
  return p.out[0];
}

TEST(ScalarMatMul, MultipliesAndAddsWithOneRounding) {
  // -16401 + (1 + 2^-10)·16385 = -16401 + (16401 + 2^-10): the product has 25 bits, and a rounding
  // of its own would lose the last.
  EXPECT_EQ(q8_0_product({{-1, 127, 2, 18}, {1 + 0x1p-10F, 127, 2, 2}}), 0x1p-10F);
}

TEST(ScalarMatMul, WalksBlocksInOrder) {
  EXPECT_EQ(q8_0_product({{32768, 127, 0, 0}, {1, 0, 0, 1}, {-32768, 127, 0, 0}}),
            0.0F);  // 1 is lost below 2^28
  EXPECT_EQ(q8_0_product({{32768, 127, 0, 0}, {-32768, 127, 0, 0}, {1, 0, 0, 1}}), 1.0F);
}

TEST(ScalarMatMul, TakesTheOffsetAfterItsBlock) {
  BlockQ4_1 blocks[2] = {};
  blocks[0].d = f32_to_f16(32768);
  blocks[0].lo[0] = 15;
  blocks[0].m = f32_to_f16(1.0F / 128);  // · Σx = 128: adds 1, lost below 2^25
  blocks[1].d = f32_to_f16(-32768);
  blocks[1].lo[0] = 15;
  blocks[1].m = f32_to_f16(1.0F / 128);
  Product p{DType::Q4_1, 1, 64, 1};
  std::memcpy(p.row(0), blocks, sizeof blocks);
  p.x[0] = p.x[32] = 127;
  p.x[1] = p.x[33] = 1;
  p.quantize();
  p.run(0, 1);
  EXPECT_EQ(p.out[0], 1.0F);
}

TEST(ScalarMatMul, SubtractsTheMinsOfASuperBlock) {
  BlockQ2_K block{};
  block.d = f32_to_f16(1);
  block.dmin = f32_to_f16(0.5F);
  block.scales[0] = 0x35;  // min 3, scale 5
  block.q[0] = 2;
  Product p{DType::Q2_K, 1, 256, 1};
  std::memcpy(p.row(0), &block, sizeof block);
  p.x[0] = 127;
  p.x[1] = 1;
  p.quantize();
  p.run(0, 1);
  EXPECT_EQ(p.out[0], 5.0F * 2 * 127 - 0.5F * 3 * 128);
}

// Extremes of the integers: a Q8_0 block of -128 and the largest scale of float16.
TEST(ScalarMatMul, KeepsExtremes) {
  BlockQ8_0 block{};
  block.d = 0x7BFF;
  for (std::int8_t& q : block.q) q = -128;
  Product p{DType::Q8_0, 1, 32, 1};
  std::memcpy(p.row(0), &block, sizeof block);
  for (float& x : p.x) x = -127;
  p.quantize();
  p.run(0, 1);
  EXPECT_EQ(p.out[0], 65504.0F * (32 * 128 * 127));
}

TEST(ScalarMatMul, SumsFloatsInSixteenLanesAndATree) {
  Product p{DType::F32, 1, 19, 1};
  std::vector<float> w(19, 0.0F);
  w[0] = 0x1p24F;  // lane 0, where 1 of column 16 is lost
  w[16] = 1;
  w[8] = -0x1p24F;  // meets lane 0 in the first step of the tree
  std::memcpy(p.row(0), w.data(), w.size() * sizeof(float));
  for (float& x : p.x) x = 1;
  p.quantize();
  p.run(0, 1);
  EXPECT_EQ(p.out[0], 0.0F);

  w[17] = 3;  // lane 1 of the tail: nothing large there
  std::memcpy(p.row(0), w.data(), w.size() * sizeof(float));
  p.run(0, 1);
  EXPECT_EQ(p.out[0], 3.0F);
}

// Lane l meets lane l + half: what cancels there sets free a 1 that any other pairing would have
// lost.
TEST(ScalarMatMul, HalvesItsTreeInOrder) {
  for (const std::size_t half : {8U, 4U, 2U}) {
    Product p{DType::F32, 1, 16, 1};
    std::vector<float> w(16, 0.0F);
    w[0] = 0x1p24F;
    w[half] = -0x1p24F;
    w[2 * half - 1] = 1;
    std::memcpy(p.row(0), w.data(), w.size() * sizeof(float));
    for (float& x : p.x) x = 1;
    p.quantize();
    p.run(0, 1);
    EXPECT_EQ(p.out[0], 1.0F) << half;
  }
}

}  // namespace
}  // namespace cria
