#include "engine/random_weights.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/blocks.h"
#include "kernels/f16.h"

namespace cria {
namespace {

constexpr double kWeightRms = 0.02;

/// splitmix64 (Steele, Lea, Flood 2014).
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  /// Uniform with mean 0 and the wanted root mean square.
  float value() {
    return static_cast<float>((static_cast<double>(next() >> 11) * 0x1p-53 - 0.5) * std::sqrt(12.0) *
                              kWeightRms);
  }
};

/// Where a block keeps its float scale and its float minimum (kNone: it has none).
struct ScaleFields {
  DType type;
  std::size_t scale, min;
};
constexpr std::size_t kNone = ~std::size_t{0};
constexpr ScaleFields kScaleFields[] = {
    {DType::Q4_0, offsetof(BlockQ4_0, d), kNone},
    {DType::Q4_1, offsetof(BlockQ4_1, d), offsetof(BlockQ4_1, m)},
    {DType::Q5_0, offsetof(BlockQ5_0, d), kNone},
    {DType::Q5_1, offsetof(BlockQ5_1, d), offsetof(BlockQ5_1, m)},
    {DType::Q8_0, offsetof(BlockQ8_0, d), kNone},
    {DType::Q2_K, offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, dmin)},
    {DType::Q3_K, offsetof(BlockQ3_K, d), kNone},
    {DType::Q4_K, offsetof(BlockQ4_K, d), offsetof(BlockQ4_K, dmin)},
    {DType::Q5_K, offsetof(BlockQ5_K, d), offsetof(BlockQ5_K, dmin)},
    {DType::Q6_K, offsetof(BlockQ6_K, d), kNone},
    {DType::IQ2_XXS, offsetof(BlockIQ2_XXS, d), kNone},
    {DType::IQ2_XS, offsetof(BlockIQ2_XS, d), kNone},
    {DType::IQ2_S, offsetof(BlockIQ2_S, d), kNone},
    {DType::IQ3_XXS, offsetof(BlockIQ3_XXS, d), kNone},
    {DType::IQ3_S, offsetof(BlockIQ3_S, d), kNone},
    {DType::IQ1_S, offsetof(BlockIQ1_S, d), kNone},
    {DType::IQ4_NL, offsetof(BlockIQ4_NL, d), kNone},
    {DType::IQ4_XS, offsetof(BlockIQ4_XS, d), kNone},
    {DType::TQ1_0, offsetof(BlockTQ1_0, d), kNone},
    {DType::TQ2_0, offsetof(BlockTQ2_0, d), kNone},
};

void put_f16(std::byte* at, double value) {
  const F16Bits bits = f32_to_f16(static_cast<float>(value));
  std::memcpy(at, &bits, sizeof bits);
}

/// Sets a block's float scale and minimum. IQ1_M has no field for the scale: it is spread over the top
/// nibbles of its four scale words.
void set_scales(DType type, std::byte* block, double scale, double min) {
  if (type == DType::IQ1_M) {
    const F16Bits bits = f32_to_f16(static_cast<float>(scale));
    BlockIQ1_M copy = load_block<BlockIQ1_M>(block);
    for (unsigned i = 0; i < 4; ++i)
      copy.scales[i] = static_cast<std::uint16_t>((copy.scales[i] & 0x0FFF) | (bits >> (4 * i) & 0xF) << 12);
    std::memcpy(block, &copy, sizeof copy);
    return;
  }
  for (const ScaleFields& fields : kScaleFields) {
    if (fields.type != type) continue;
    put_f16(block + fields.scale, scale);
    if (fields.min != kNone) put_f16(block + fields.min, min);
  }
}

struct Scales {
  double scale, min;
};

double mean(const std::vector<float>& values, double power) {
  double sum = 0;
  for (const float value : values) sum += std::pow(value, power);
  return sum / static_cast<double>(values.size());
}

/// The scales that give random blocks of a type the wanted mean and spread, found by dequantizing some with
/// scales of 1.
Scales calibrate(const DTypeInfo& type, Random& random) {
  constexpr std::size_t kBlocks = 64;
  std::vector<std::byte> blocks(kBlocks * type.block_bytes);
  std::vector<float> values(kBlocks * type.block_values);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random.next());
  const auto dequantized = [&](double scale, double min) -> const std::vector<float>& {
    for (std::size_t i = 0; i < kBlocks; ++i) set_scales(type.id, &blocks[i * type.block_bytes], scale, min);
    type.dequantize(blocks.data(), values.data(), values.size());
    return values;
  };
  const double from_min = mean(dequantized(0, 1), 1);
  const double min = from_min == 0 ? 0 : -mean(dequantized(1, 0), 1) / from_min;
  const double rms = std::sqrt(mean(dequantized(1, min), 2));
  return {kWeightRms / rms, min * kWeightRms / rms};
}

void fill_blocks(const DTypeInfo& type, std::size_t n_values, std::byte* out, Random& random) {
  const Scales scales = calibrate(type, random);
  const std::size_t bytes = type.bytes(n_values);
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const std::uint64_t bits = random.next();
    std::memcpy(out + at, &bits, 8);
  }
  for (; at < bytes; ++at) out[at] = static_cast<std::byte>(random.next());
  for (at = 0; at < bytes; at += type.block_bytes) set_scales(type.id, out + at, scales.scale, scales.min);
}

template <class Bits, class Convert>
void fill_floats(std::size_t n, std::byte* out, Random& random, Convert convert) {
  for (std::size_t i = 0; i < n; ++i) {
    const Bits bits = convert(random.value());
    std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

void fill_random_weights(DType type, std::size_t n_values, std::byte* out, std::uint64_t seed) {
  const DTypeInfo& info = dtype_info(type);
  assert(info.dot != DotClass::None && n_values % info.block_values == 0);
  Random random{seed};
  switch (type) {  // the float types are values, not blocks
    case DType::F32:
      return fill_floats<float>(n_values, out, random, [](float x) { return x; });
    case DType::F16:
      return fill_floats<F16Bits>(n_values, out, random, [](float x) { return f32_to_f16(x); });
    case DType::BF16:
      return fill_floats<std::uint16_t>(n_values, out, random, [](float x) { return f32_to_bf16(x); });
    default:
      return fill_blocks(info, n_values, out, random);
  }
}

}  // namespace cria
