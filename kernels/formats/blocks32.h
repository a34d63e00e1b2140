// Types with a float scale for every 16, 32 or 128 values.
#pragma once

#include <array>

#include "kernels/formats/format.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Nibble i of `lo` is value i (low nibbles: 0…15, high nibbles:
// 16…31); bit i of `hi` is the fifth bit of value i.
#pragma pack(push, 1)
struct BlockQ4_0 {  // 4.5 bits per weight: d*(nibble - 8)
  F16Bits d;
  std::uint8_t lo[16];
};
struct BlockQ4_1 {  // 5 bits: d*nibble + m
  F16Bits d, m;
  std::uint8_t lo[16];
};
struct BlockQ5_0 {  // 5.5 bits: d*(five bits - 16)
  F16Bits d;
  std::uint32_t hi;
  std::uint8_t lo[16];
};
struct BlockQ5_1 {  // 6 bits: d*(five bits) + m
  F16Bits d, m;
  std::uint32_t hi;
  std::uint8_t lo[16];
};
struct BlockQ6_0 {  // 6.5 bits: d*(six bits - 32)
  F16Bits d;
  std::uint8_t hi[8];  // byte i % 8: the top two bits of value i, at 0, 4, 2, 6 for each eight
  std::uint8_t lo[16];
};
struct BlockQ8_0 {  // 8.5 bits: d*q
  F16Bits d;
  std::int8_t q[32];
};
struct BlockQ1_0 {  // 1.125 bits: d for bit 1, -d for bit 0; 128 values, lowest bit first
  F16Bits d;
  std::uint8_t bits[16];
};
#pragma pack(pop)

constexpr int five_bits(const std::uint8_t* lo, std::uint32_t hi, int i) {
  return nibble_of_32(lo, i) | static_cast<int>(hi >> i & 1) << 4;
}

template <>
struct Format<DType::Q4_0> : Blocks32Format<BlockQ4_0> {
  static_assert(sizeof(Block) == 18);
  static constexpr DecodeTraits kTraits{-8, 7, 32, 1, 1, false};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, f16_to_f32(b.d), 0, [&](int i) { return nibble_of_32(b.lo, i) - 8; });
  }
};

template <>
struct Format<DType::Q4_1> : Blocks32Format<BlockQ4_1> {
  static_assert(sizeof(Block) == 20);
  static constexpr DecodeTraits kTraits{0, 15, 32, 1, 1, true};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, f16_to_f32(b.d), f16_to_f32(b.m), [&](int i) { return nibble_of_32(b.lo, i); });
  }
};

template <>
struct Format<DType::Q5_0> : Blocks32Format<BlockQ5_0> {
  static_assert(sizeof(Block) == 22);
  static constexpr DecodeTraits kTraits{-16, 15, 32, 1, 1, false};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, f16_to_f32(b.d), 0, [&](int i) { return five_bits(b.lo, b.hi, i) - 16; });
  }
};

template <>
struct Format<DType::Q5_1> : Blocks32Format<BlockQ5_1> {
  static_assert(sizeof(Block) == 24);
  static constexpr DecodeTraits kTraits{0, 31, 32, 1, 1, true};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, f16_to_f32(b.d), f16_to_f32(b.m), [&](int i) { return five_bits(b.lo, b.hi, i); });
  }
};

template <>
struct Format<DType::Q6_0> : Blocks32Format<BlockQ6_0> {
  static_assert(sizeof(Block) == 26);
  static constexpr DecodeTraits kTraits{-32, 31, 32, 1, 1, false};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, f16_to_f32(b.d), 0, [&](int i) {
      const int top = b.hi[i % 8] >> (4 * (i / 8 % 2) + 2 * (i / 16)) & 3;
      return (nibble_of_32(b.lo, i) | top << 4) - 32;
    });
  }
};

template <>
struct Format<DType::Q8_0> : Blocks32Format<BlockQ8_0> {
  static_assert(sizeof(Block) == 34);
  static constexpr DecodeTraits kTraits{-128, 127, 32, 1, 1, false};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, f16_to_f32(b.d), 0, [&](int i) { return b.q[i]; });
  }
};

template <>
struct Format<DType::Q1_0> : Blocks32Format<BlockQ1_0, 128> {
  static_assert(sizeof(Block) == 18);
  static constexpr DecodeTraits kTraits{-1, 1, 32, 1, 1, false};
  static void decode(const Block& b, int group, Decoded32& out) {
    fill(out, f16_to_f32(b.d), 0,
         [&](int i) { return (b.bits[4 * group + i / 8] >> (i % 8) & 1) * 2 - 1; });
  }
};

// Four-bit floating point: nibbles that are E2M1 numbers (a sign, two bits of exponent, one of
// mantissa). Sources: OCP Microscaling Formats (MX) 1.0 for E2M1 and E8M0; E4M3 is OCP 8-bit
// Floating Point 1.0's.

/// Twice the numbers ±0, 0.5, 1, 1.5, 2, 3, 4, 6 that the nibbles stand for; -0 is 0.
inline constexpr std::array<std::int8_t, 16> kTwiceE2m1 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                           0, -1, -2, -3, -4, -6, -8, -12};

/// Half of the power of two of an E8M0 byte: 2^(e - 128), subnormal for 0 and 1. (255 is NaN in MX;
/// files use it as 2^128, whose half is finite.)
constexpr float half_of_e8m0(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1U) << 23);
}

/// The E8M0 byte whose half is nearest to a positive d; 0 for others that are not positive.
constexpr std::uint8_t e8m0_of_half(float d) {
  if (!(d > 0)) return 0;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(d) + 0x00400000U) >> 23;
  return static_cast<std::uint8_t>(exponent < 254 ? exponent + 1 : 255);
}

/// Half of the number that a UE4M3 byte means, by byte: E4M3 without a sign (its bit says nothing),
/// subnormal for exponents of 0; 0x7F, no number there, is 0.
inline constexpr std::array<float, 256> kHalfOfUe4m3 = [] {
  std::array<float, 256> half{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t exponent = byte >> 3 & 15, fraction = byte & 7;
    const float power =
        std::bit_cast<float>(((exponent < 1 ? 1 : exponent) + 116U) << 23);  // 2^(e - 11)
    if (byte != 0x7F) half[byte] = power * static_cast<float>((exponent == 0 ? 0 : 8) + fraction);
  }
  return half;
}();
inline constexpr std::uint8_t kLargestUe4m3 = 0x7E;

/// The UE4M3 byte whose half is nearest to d; 0 for what is not positive. Read as the upper bits of
/// a float, a byte is too small by 2^120, subnormals included.
constexpr std::uint8_t ue4m3_of_half(float d) {
  if (!(d > 0)) return 0;
  const std::uint32_t byte = (std::bit_cast<std::uint32_t>(d * 0x1p-119F) + 0x00080000U) >> 20;
  return byte < kLargestUe4m3 ? static_cast<std::uint8_t>(byte) : kLargestUe4m3;
}

#pragma pack(push, 1)
struct BlockMXFP4 {     // 4.25 bits per weight: 2^(e - 127)*E2M1
  std::uint8_t e;       // E8M0
  std::uint8_t lo[16];  // low nibbles: values 0…15, high nibbles: 16…31
};
struct BlockNVFP4 {       // 4.5 bits: UE4M3*E2M1, sub-blocks of 16
  std::uint8_t e[4];      // UE4M3
  std::uint8_t lo[4][8];  // by sub-block; low nibbles: values 0…7, high nibbles: 8…15
};
#pragma pack(pop)

template <>
struct Format<DType::MXFP4> : Blocks32Format<BlockMXFP4> {
  static_assert(sizeof(Block) == 17);
  static constexpr DecodeTraits kTraits{-12, 12, 32, 1, 1, false};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, half_of_e8m0(b.e), 0,
         [&](int i) { return kTwiceE2m1[static_cast<std::size_t>(nibble_of_32(b.lo, i))]; });
  }
  static void set_scales(Block& b, float d, float /*m*/) { b.e = e8m0_of_half(d < 0 ? -d : d); }
};

template <>
struct Format<DType::NVFP4> : Blocks16Format<BlockNVFP4, 64> {
  static_assert(sizeof(Block) == 36);
  static constexpr DecodeTraits kTraits{-12, 12, 16, 1, 1, false};
  static void decode(const Block& b, int group, Decoded16& out) {
    fill(out, kHalfOfUe4m3[b.e[group]], 0,
         [&](int i) { return kTwiceE2m1[static_cast<std::size_t>(nibble_of_16(b.lo[group], i))]; });
  }
  static void set_scales(Block& b, float d, float /*m*/) {
    for (std::uint8_t& e : b.e) e = ue4m3_of_half(d < 0 ? -d : d);
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
