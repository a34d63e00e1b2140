#include "engine/synthetic/random_weights.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/formats/decode.h"
#include "kernels/formats/f16.h"

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
    return static_cast<float>((static_cast<double>(next() >> 11) * 0x1p-53 - 0.5) *
                              std::sqrt(12.0) * kWeightRms);
  }
};

struct Scales {
  double scale, min;
};

void set_scales(const DTypeInfo& type, std::byte* row, std::size_t n_blocks, Scales scales) {
  const auto scale = static_cast<float>(scales.scale), min = static_cast<float>(scales.min);
  set_row_scale(type.id, row, scale);
  for (std::size_t i = 0; i < n_blocks; ++i)
    set_block_scales(type.id, row + type.header_bytes + i * type.block_bytes, scale, min);
}

double mean(const std::vector<float>& values, double power) {
  double sum = 0;
  for (const float value : values) sum += std::pow(value, power);
  return sum / static_cast<double>(values.size());
}

/// The scales that give random blocks of a type the wanted mean and spread, found by dequantizing
/// some with scales of 1.
Scales calibrate(const DTypeInfo& type, Random& random) {
  constexpr std::size_t kBlocks = 64;
  std::vector<std::byte> row(type.row_bytes(kBlocks * type.block_values));
  std::vector<float> values(kBlocks * type.block_values);
  for (std::byte& byte : row) byte = static_cast<std::byte>(random.next());
  const auto dequantized = [&](double scale, double min) -> const std::vector<float>& {
    set_scales(type, row.data(), kBlocks, {scale, min});
    type.dequantize(row.data(), values.data(), values.size());
    return values;
  };
  // Where a type has a minimum, that is; a scale that cannot be 0 leaves less.
  const double from_min = mean(dequantized(0, 1), 1);
  const double min = std::abs(from_min) < 1e-30 ? 0 : -mean(dequantized(1, 0), 1) / from_min;
  const double rms = std::sqrt(mean(dequantized(1, min), 2));
  return {kWeightRms / rms, min * kWeightRms / rms};
}

void fill_blocks(const DTypeInfo& type, std::size_t rows, std::size_t cols, std::byte* out,
                 Random& random) {
  const Scales scales = calibrate(type, random);
  const std::size_t row_bytes = type.row_bytes(cols), bytes = rows * row_bytes;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const std::uint64_t bits = random.next();
    std::memcpy(out + at, &bits, 8);
  }
  for (; at < bytes; ++at) out[at] = static_cast<std::byte>(random.next());
  for (at = 0; at < bytes; at += row_bytes)
    set_scales(type, out + at, cols / type.block_values, scales);
}

template <class Bits, class Convert>
void fill_floats(std::size_t n, std::byte* out, Random& random, Convert convert) {
  for (std::size_t i = 0; i < n; ++i) {
    const Bits bits = convert(random.value());
    std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

void fill_random_weights(DType type, std::size_t rows, std::size_t cols, std::byte* out,
                         std::uint64_t seed) {
  const DTypeInfo& info = dtype_info(type);
  assert(info.dot != DotClass::None && cols % info.block_values == 0);
  const std::size_t n_values = rows * cols;
  Random random{seed};
  switch (type) {  // the float types are values, not blocks
    case DType::F32:
      return fill_floats<float>(n_values, out, random, [](float x) { return x; });
    case DType::F16:
      return fill_floats<std::uint16_t>(n_values, out, random,
                                        [](float x) { return f32_to_f16(x); });
    case DType::BF16:
      return fill_floats<std::uint16_t>(n_values, out, random,
                                        [](float x) { return f32_to_bf16(x); });
    default:
      return fill_blocks(info, rows, cols, out, random);
  }
}

}  // namespace cria
