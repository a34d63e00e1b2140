// The encoders of weights: every instruction set against the scalar one, the scalar one against
// what an encoder of its type must reach.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/formats/formats.h"
#include "kernels/simd/round.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

const std::vector<DType> kEncoded = encoded_types();

using Bytes = Buffer<std::byte>;

Bytes encode(const KernelSet& kernels, DType type, const Buffer<float>& x,
             const Buffer<float>* importance = nullptr) {
  Bytes blocks(dtype_info(type).row_bytes(x.size()));
  kernels.encode(type)(x.data(), importance == nullptr ? nullptr : importance->data(), x.size(),
                       blocks.data());
  return blocks;
}

std::vector<float> decode(DType type, const Bytes& blocks) {
  const DTypeInfo& info = dtype_info(type);
  std::vector<float> x((blocks.size() - info.header_bytes) / info.block_bytes * info.block_values);
  info.dequantize(blocks.data(), x.data(), x.size());
  return x;
}

/// √(Σw(x - x̂)²/Σw)
double rms_error(DType type, const Buffer<float>& x, const Buffer<float>* importance = nullptr) {
  const std::vector<float> y = decode(type, encode(scalar_kernels(), type, x, importance));
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double w = importance == nullptr ? 1 : (*importance)[i],
                 e = static_cast<double>(x[i]) - y[i];
    sum += w * e * e;
    weight += w;
  }
  return std::sqrt(sum / weight);
}

Buffer<float> normal_values(std::size_t n, std::uint32_t seed = 5) {
  Buffer<float> x(n, 1);
  fill_random(x.data(), n, seed, 0.03F);
  return x;
}

Buffer<float> random_importance(std::size_t n) {
  Buffer<float> w(n, 2);
  fill_random(w.data(), n, 77);
  for (float& v : w) v = v * v;
  return w;
}

/// Super-blocks of everything that a row may hold.
Buffer<float> awkward_values() {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::size_t blocks = 19;  // not a multiple of any batch
  Buffer<float> x(blocks * 256, 3);
  fill_random(x.data(), x.size(), 9, 0.05F);
  const auto scale = [&](std::size_t block, float factor) {
    for (std::size_t i = block * 256; i < (block + 1) * 256; ++i) x[i] *= factor;
  };
  scale(0, 0);
  scale(1, 1e-42F);  // subnormals
  scale(2, 1e-6F);   // d is a subnormal f16
  scale(3, 1e6F);    // d overflows f16
  scale(4, 1e38F);   // squares overflow float
  for (std::size_t i = 5 * 256; i < 6 * 256; ++i) x[i] = 0.25F;
  for (std::size_t i = 6 * 256; i < 7 * 256; ++i) x[i] = -0.25F;
  for (std::size_t i = 7 * 256; i < 8 * 256; ++i)
    x[i] = i % 32 == 0 ? 1.0F : 0.0F;  // one value of many
  for (std::size_t i = 8 * 256; i < 9 * 256; ++i)
    x[i] = i == 8 * 256 ? -1.0F : 0.0F;                        // one block of many
  for (std::size_t i = 9 * 256; i < 10 * 256; ++i) x[i] += 1;  // far from 0
  for (std::size_t i = 10 * 256; i < 11 * 256; ++i) x[i] -= 1;
  for (std::size_t i = 11 * 256; i < 12 * 256; ++i)
    x[i] = static_cast<float>(i % 16) - 7.5F;  // ties
  x[12 * 256 + 3] = 1000;                      // an outlier
  x[13 * 256 + 5] = kNaN;
  x[14 * 256 + 6] = kInf;
  x[15 * 256 + 7] = -kInf;
  x[16 * 256 + 8] = kMax;
  x[16 * 256 + 9] = -kMax;
  return x;
}

/// Importance with columns and blocks of nothing, and what no importance should be.
Buffer<float> awkward_importance(std::size_t n) {
  Buffer<float> w = random_importance(n);
  for (std::size_t i = 0; i < n; ++i)
    if (i % 3 == 0 || i / 256 == 10 || i / 32 == 70) w[i] = 0;
  for (std::size_t i = 5 * 256; i < 6 * 256; ++i) w[i] *= 1e-30F;
  for (std::size_t i = 6 * 256; i < 7 * 256; ++i) w[i] *= 1e30F;
  w[17 * 256 + 1] = std::numeric_limits<float>::quiet_NaN();
  w[17 * 256 + 40] = std::numeric_limits<float>::infinity();
  w[18 * 256 + 2] = -5;
  return w;
}

TEST(Encode, SameBitsOnEveryIsa) {
  const Buffer<float> awkward = awkward_values(), normal = normal_values(19 * 256);
  for (const Buffer<float>* x : {&awkward, &normal}) {
    const Buffer<float> importance = awkward_importance(x->size());
    for (const Buffer<float>* w : {static_cast<const Buffer<float>*>(nullptr), &importance}) {
      for (const DType type : kEncoded) {
        const Bytes expected = encode(scalar_kernels(), type, *x, w);
        for (const KernelSet* set : available_kernels())
          EXPECT_TRUE(encode(*set, type, *x, w) == expected)
              << set->isa << ' ' << name(type) << (w != nullptr);
      }
    }
  }
}

TEST(Encode, BlocksDoNotDependOnTheirNeighbours) {
  const Buffer<float> x = awkward_values(), w = awkward_importance(x.size());
  std::vector<DType> types = kEncoded;  // but where the blocks of a row share its scale
  std::erase_if(types, [](DType type) { return dtype_info(type).header_bytes != 0; });
  for (const DType type : types) {
    const Bytes whole = encode(scalar_kernels(), type, x, &w);
    const std::size_t bytes = dtype_info(type).row_bytes(256);
    for (std::size_t b = 0; b < x.size() / 256; ++b) {
      Bytes one(bytes);
      scalar_kernels().encode(type)(x.data() + b * 256, w.data() + b * 256, 256, one.data());
      EXPECT_EQ(std::memcmp(one.data(), whole.data() + b * bytes, bytes), 0)
          << name(type) << ' ' << b;
    }
  }
}

TEST(Encode, EveryBlockIsFinite) {
  const Buffer<float> x = awkward_values(), w = awkward_importance(x.size());
  for (const DType type : kEncoded) {
    if (dtype_info(type).is_float()) continue;  // they keep what they are given
    for (const Buffer<float>* importance : {static_cast<const Buffer<float>*>(nullptr), &w})
      for (const float y : decode(type, encode(scalar_kernels(), type, x, importance)))
        EXPECT_TRUE(std::isfinite(y)) << name(type);
  }
}

TEST(Encode, ZeroStaysZero) {
  Buffer<float> x(512);
  std::fill(x.begin(), x.end(), 0.0F);
  for (const DType type : kEncoded)
    for (const float y : decode(type, encode(scalar_kernels(), type, x)))
      EXPECT_EQ(y, 0) << name(type);
}

TEST(Encode, ZeroImportanceEqualsNone) {
  const Buffer<float> x = normal_values(2048);
  Buffer<float> w(x.size());
  for (const float value : {0.0F, 1.0F, 0.125F}) {
    std::fill(w.begin(), w.end(), value);
    for (const DType type : kEncoded)
      EXPECT_TRUE(encode(scalar_kernels(), type, x, &w) == encode(scalar_kernels(), type, x))
          << name(type) << ' ' << value;
  }
}

/// Holds at every position in a block, so it does not depend on equal weights.
TEST(Encode, IgnoresNanImportance) {
  const Buffer<float> x = normal_values(512);
  for (const std::size_t i : {0, 5, 256}) {
    Buffer<float> none = random_importance(x.size()), no_number = random_importance(x.size());
    none[i] = 0;
    no_number[i] = std::numeric_limits<float>::quiet_NaN();
    for (const DType type : kEncoded)
      EXPECT_TRUE(encode(scalar_kernels(), type, x, &no_number) ==
                  encode(scalar_kernels(), type, x, &none))
          << name(type) << ' ' << i;
  }
}

TEST(Encode, ErrorIsWithinWhatTheTypeAllows) {
  // Relative to the deviation of normal weights; measured, with 2 % to spare.
  const std::map<DType, double> bounds = {
      {DType::F32, 0},         {DType::F16, 0.0003},     {DType::BF16, 0.0018},
      {DType::Q4_0, 0.0820},   {DType::Q4_1, 0.0705},    {DType::Q5_0, 0.0407},
      {DType::Q5_1, 0.0338},   {DType::Q8_0, 0.0050},    {DType::IQ4_NL, 0.0742},
      {DType::Q2_K, 0.2630},   {DType::Q3_K, 0.1460},    {DType::Q4_K, 0.0710},
      {DType::Q5_K, 0.0349},   {DType::Q6_K, 0.0168},    {DType::IQ4_XS, 0.0748},
      {DType::TQ1_0, 0.4410},  {DType::TQ2_0, 0.4410},   {DType::IQ3_S, 0.132},
      {DType::IQ3_XXS, 0.179}, {DType::IQ2_S, 0.243},    {DType::MXFP4, 0.1126},
      {DType::IQ2_XS, 0.289},  {DType::IQ2_XXS, 0.333},  {DType::IQ1_M, 0.420},
      {DType::IQ1_S, 0.453},   {DType::NVFP4, 0.0870},   {DType::Q1_0, 0.612},
      {DType::IQ4_KS, 0.0727}, {DType::IQ2_K, 0.273},    {DType::IQ3_K, 0.130},
      {DType::IQ4_K, 0.0620},  {DType::IQ5_K, 0.0307},   {DType::IQ6_K, 0.0151},
      {DType::IQ5_KS, 0.0356}, {DType::IQ2_KS, 0.3075},  {DType::IQ3_KS, 0.1506},
      {DType::IQ2_KL, 0.2288}, {DType::IQ4_KSS, 0.0871}, {DType::Q6_0, 0.0198}};
  const Buffer<float> x = normal_values(16384);
  for (const DType type : kEncoded)
    EXPECT_LE(rms_error(type, x), bounds.at(type) * 0.03) << name(type);
}

TEST(Encode, ImportanceLowersTheWeightedError) {
  const Buffer<float> x = normal_values(16384), w = random_importance(x.size());
  for (const DType type : kEncoded) {
    if (dtype_info(type).is_float()) continue;
    const std::vector<float> plain = decode(type, encode(scalar_kernels(), type, x));
    double sum = 0, weight = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double e = static_cast<double>(x[i]) - plain[i];
      sum += w[i] * e * e;
      weight += w[i];
    }
    EXPECT_LT(rms_error(type, x, &w), std::sqrt(sum / weight)) << name(type);
  }
}

/// Types whose codes and scale a second encoding finds again.
TEST(Encode, AgainChangesNothing) {
  const Buffer<float> x = normal_values(4096);
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q4_0, DType::Q5_0,
                           DType::Q8_0, DType::IQ4_NL, DType::TQ1_0, DType::TQ2_0, DType::MXFP4}) {
    const Bytes first = encode(scalar_kernels(), type, x);
    const std::vector<float> values = decode(type, first);
    Buffer<float> again(values.size());
    std::copy(values.begin(), values.end(), again.begin());
    EXPECT_EQ(decode(type, encode(scalar_kernels(), type, again)), values) << name(type);
  }
}

/// Σ(x - x̂)² of a block of 32 whose codes low … high are spread over its values: the plain way.
double plain_error(const float* x, bool affine, int low, int high) {
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float peak = -*least > *most ? *least : *most;
  const float d =
      affine ? (*most - *least) / static_cast<float>(high) : peak / static_cast<float>(low);
  const float scale = f16_to_f32(f32_to_f16(d)),
              offset = affine ? f16_to_f32(f32_to_f16(*least)) : 0;
  double sum = 0;
  for (int i = 0; i < 32; ++i) {
    const float q = std::clamp(std::nearbyint((x[i] - offset) / scale), static_cast<float>(low),
                               static_cast<float>(high));
    sum += std::pow(static_cast<double>(x[i]) - (static_cast<double>(scale) * q + offset), 2);
  }
  return sum;
}

// 5 %: the plain way is among what is tried, but the error of 8 bits depends on how d happens to
// round.
TEST(Encode, NoBlockIsWorseThanThePlainWay) {
  const Buffer<float> x = normal_values(32 * 300);
  struct Plain {
    DType type;
    bool affine;
    int low, high;
  };
  for (const Plain plain : {Plain{DType::Q4_0, false, -8, 7}, Plain{DType::Q5_0, false, -16, 15},
                            Plain{DType::Q8_0, false, -128, 127}, Plain{DType::Q4_1, true, 0, 15},
                            Plain{DType::Q5_1, true, 0, 31}}) {
    const std::vector<float> y = decode(plain.type, encode(scalar_kernels(), plain.type, x));
    for (std::size_t b = 0; b < x.size() / 32; ++b) {
      double error = 0;
      for (std::size_t i = b * 32; i < b * 32 + 32; ++i)
        error += std::pow(static_cast<double>(x[i]) - y[i], 2);
      EXPECT_LE(error, 1.05 * plain_error(x.data() + b * 32, plain.affine, plain.low, plain.high))
          << name(plain.type) << ' ' << b;
    }
  }
}

/// One block of Q4_0 against every f16 that d may be.
TEST(Encode, Q4_0IsNearTheBestOfAllScales) {
  const Buffer<float> x = normal_values(32 * 20);
  const std::vector<float> y = decode(DType::Q4_0, encode(scalar_kernels(), DType::Q4_0, x));
  double ours = 0, best_of_all = 0;
  for (std::size_t b = 0; b < x.size() / 32; ++b) {
    double best = 1e30;
    for (std::uint32_t bits = 0x1000; bits < 0x2C00; ++bits)  // 0.0005 to 0.06, of either sign
      for (const std::uint32_t sign : {0U, 0x8000U}) {
        const float d = f16_to_f32(static_cast<std::uint16_t>(bits | sign));
        double sum = 0;
        for (std::size_t i = b * 32; i < b * 32 + 32; ++i)
          sum += std::pow(x[i] - d * std::clamp(std::nearbyint(x[i] / d), -8.0F, 7.0F), 2);
        best = std::min(best, sum);
      }
    best_of_all += best;
    for (std::size_t i = b * 32; i < b * 32 + 32; ++i)
      ours += std::pow(static_cast<double>(x[i]) - y[i], 2);
  }
  EXPECT_LE(ours, 1.03 * best_of_all);
  EXPECT_GE(ours, 0.999 * best_of_all);  // or the search above is wrong
}

/// Sub-blocks of NVFP4 of many sizes against every byte that their scale may be.
TEST(Encode, Nvfp4TakesTheBestOfAllScales) {
  Buffer<float> x = normal_values(64 * 40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::exp2(static_cast<float>(i / 64) / 2 - 6);
  const std::vector<float> y = decode(DType::NVFP4, encode(scalar_kernels(), DType::NVFP4, x));
  for (std::size_t first = 0; first < x.size(); first += 16) {
    double ours = 0, best = 1e30;
    for (std::size_t i = first; i < first + 16; ++i)
      ours += std::pow(static_cast<double>(x[i]) - y[i], 2);
    for (std::size_t byte = 1; byte <= kLargestUe4m3; ++byte) {
      double sum = 0;
      for (std::size_t i = first; i < first + 16; ++i) {
        double least = 1e30;
        for (const std::int8_t q : kTwiceE2m1)
          least =
              std::min(least, std::abs(static_cast<double>(x[i]) - double{kHalfOfUe4m3[byte]} * q));
        sum += least * least;
      }
      best = std::min(best, sum);
    }
    EXPECT_LE(ours, best * (1 + 1e-5)) << first;
  }
}

TEST(Encode, RowsOfIq4KsUseTheirLargestScale) {
  const Buffer<float> x = normal_values(1024);
  const Bytes row = encode(scalar_kernels(), DType::IQ4_KS, x);
  int largest = 0;
  for (std::size_t b = 0; b < 4; ++b) {
    const auto block =
        load_block<BlockIQ4_KS>(row.data() + sizeof(float) + b * sizeof(BlockIQ4_KS));
    for (const std::uint8_t scale : block.scales)
      largest = std::max(largest, std::abs((scale & 254) - 127));
  }
  EXPECT_EQ(largest, 127);
}

TEST(Encode, TernaryWeightsStayWhatTheyAre) {
  Buffer<float> x(1024);
  fill_random(x.data(), x.size(), 3);
  for (float& v : x) v = v > 0.5F ? 0.75F : v < -0.5F ? -0.75F : 0.0F;
  const std::vector<float> expected(x.begin(), x.end());
  for (const DType type : {DType::TQ1_0, DType::TQ2_0})
    EXPECT_EQ(decode(type, encode(scalar_kernels(), type, x)), expected) << name(type);
}

/// Weights that are all of one sign are not what the types with a min are made for: they must cope.
TEST(Encode, OffsetsOfEitherSign) {
  for (const float offset : {1.0F, -1.0F}) {
    Buffer<float> x = normal_values(2048);
    for (float& v : x) v += offset;
    for (const DType type : {DType::Q4_1, DType::Q5_1, DType::Q2_K, DType::Q4_K, DType::Q5_K})
      EXPECT_LE(rms_error(type, x), type == DType::Q2_K ? 0.02 : 0.01)
          << name(type) << ' ' << offset;
  }
}

TEST(Encode, FloatsAreRoundedToNearest) {
  const float values[] = {0.0F,  -0.0F,    1.0F, 1.0F + 0x1p-11F, 1.0F + 0x3p-11F, 1.0F + 0x1p-8F,
                          3e-8F, 65519.0F, -3.0F};
  Buffer<float> x(std::size(values));
  std::copy(std::begin(values), std::end(values), x.begin());
  const Bytes half = encode(scalar_kernels(), DType::F16, x),
              brain = encode(scalar_kernels(), DType::BF16, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::uint16_t h, b;
    std::memcpy(&h, half.data() + 2 * i, 2);
    std::memcpy(&b, brain.data() + 2 * i, 2);
    EXPECT_EQ(h, f32_to_f16(x[i])) << x[i];
    EXPECT_EQ(b, f32_to_bf16(x[i])) << x[i];
  }
}

TEST(Encode, F16SaturatesButKeepsInfinity) {
  Buffer<float> x(4);
  x[0] = 1e6F;
  x[1] = -65520.0F;
  x[2] = std::numeric_limits<float>::infinity();
  x[3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = decode(DType::F16, encode(scalar_kernels(), DType::F16, x));
  EXPECT_EQ(y[0], 65504);
  EXPECT_EQ(y[1], -65504);
  EXPECT_EQ(y[2], x[2]);
  EXPECT_TRUE(std::isnan(y[3]));
}

}  // namespace
}  // namespace cria
