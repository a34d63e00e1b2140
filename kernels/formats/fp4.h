// Four-bit floating point: nibbles that are E2M1 numbers (a sign, two bits of exponent, one of mantissa).
// Sources: OCP Microscaling Formats (MX) 1.0 for E2M1 and E8M0.
#pragma once

#include <array>

#include "kernels/formats/format.h"

namespace cria {

/// Twice the numbers ±0, 0.5, 1, 1.5, 2, 3, 4, 6 that the nibbles stand for; -0 is 0.
inline constexpr std::array<std::int8_t, 16> kTwiceE2m1 = {0, 1,  2,  3,  4,  6,  8,  12,
                                                           0, -1, -2, -3, -4, -6, -8, -12};

/// Half of the power of two that an E8M0 byte means: 2^(e - 128), subnormal for 0 and 1. (255 is no number in
/// MX; files take it for 2^128, whose half is finite.)
constexpr float half_of_e8m0(std::uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1U) << 23);
}

/// The E8M0 byte whose half is nearest to a positive d; 0 for others that are not positive.
constexpr std::uint8_t e8m0_of_half(float d) {
  if (!(d > 0)) return 0;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(d) + 0x00400000U) >> 23;
  return static_cast<std::uint8_t>(exponent < 254 ? exponent + 1 : 255);
}

#pragma pack(push, 1)
struct BlockMXFP4 {     // 4.25 bits per weight: 2^(e - 127)*E2M1
  std::uint8_t e;       // E8M0
  std::uint8_t lo[16];  // low nibbles: values 0…15, high nibbles: 16…31
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

}  // namespace cria
