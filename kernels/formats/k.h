// The K types (256 values, integer scales and mins of sub-blocks under one or two float scales) and
// the ternary types.
#pragma once

#include "kernels/formats/format.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

#pragma pack(push, 1)
struct BlockQ2_K {          // 2.625 bits per weight: d*scale*q - dmin*min, sub-blocks of 16
  std::uint8_t scales[16];  // low nibble: scale, high nibble: min
  std::uint8_t q[64];       // per half of 128: bits 2j, 2j+1 of byte l are value 32j + l
  F16Bits d, dmin;
};
struct BlockQ3_K {      // 3.4375 bits: d*(scale - 32)*(q - 4), sub-blocks of 16
  std::uint8_t hi[32];  // bit j of byte l: the third bit of value 32j + l
  std::uint8_t lo[64];  // as q of Q2_K
  // The low four bits of scale j are nibbles of bytes 0…7, the high two are bits 2(j/4) of byte 8 +
  // j%4.
  std::uint8_t scales[12];
  F16Bits d;
};
struct BlockQ4_K {  // 4.5 bits: d*scale*q - dmin*min, sub-blocks of 32
  F16Bits d, dmin;
  std::uint8_t scales[12];  // eight 6-bit scales and mins, see unpack_scales_and_mins
  std::uint8_t
      lo[128];  // per 64 values: byte l holds values l (low nibble) and 32 + l (high nibble)
};
struct BlockQ5_K {  // 5.5 bits: as Q4_K with a fifth bit
  F16Bits d, dmin;
  std::uint8_t scales[12];
  std::uint8_t hi[32];  // bit j of byte l: the fifth bit of value 32j + l
  std::uint8_t lo[128];
};
struct BlockQ6_K {  // 6.5625 bits: d*scale*(q - 32), sub-blocks of 16
  std::uint8_t
      lo[128];  // per half of 128: byte l (0…63) holds values l (low nibble) and 64 + l (high)
  std::uint8_t hi[64];  // per half: bits 2j, 2j+1 of byte l are the top bits of value 32j + l
  std::int8_t scales[16];
  F16Bits d;
};
struct BlockQ8_1 {  // 9 bits: d*q; sum is d*Σq, redundant
  F16Bits d, sum;
  std::int8_t q[32];
};
struct BlockQ8_K {  // 9.125 bits: d*q; sums of 16 q are redundant
  float d;
  std::int8_t q[256];
  std::int16_t sums[16];
};
#pragma pack(pop)

/// Eight 6-bit scales and mins in 12 bytes, each for 32 values. The first four are the low six bits
/// of bytes j (scale) and j+4 (min). The others have their low four bits in byte j+4 (scale low,
/// min high) and their top two in the spare bits.
inline void unpack_scales_and_mins(const std::uint8_t (&packed)[12], Decoded256& out) {
  for (int j = 0; j < 8; ++j) {
    int scale = packed[j % 4] & 63, min = packed[j % 4 + 4] & 63;
    if (j >= 4) {
      scale = (packed[j + 4] & 15) | packed[j - 4] >> 6 << 4;
      min = packed[j + 4] >> 4 | packed[j] >> 6 << 4;
    }
    out.scale[2 * j] = out.scale[2 * j + 1] = static_cast<std::int16_t>(scale);
    out.min[2 * j] = out.min[2 * j + 1] = static_cast<std::int16_t>(min);
  }
}
/// Value i of nibbles where 32 bytes hold 32 values in their low and the next 32 in their high
/// halves.
inline int nibble_of_64(const std::uint8_t (&lo)[128], int i) {
  return lo[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}
/// Bit j of byte l belongs to value 32j + l.
inline int bit_plane(const std::uint8_t (&hi)[32], int i) { return hi[i % 32] >> (i / 32) & 1; }

template <>
struct Format<DType::Q2_K> : Super256Format<BlockQ2_K> {
  static_assert(sizeof(Block) == 84);
  static constexpr DecodeTraits kTraits{0, 3, 16, 0, 15, true};
  static void decode(const Block& b, Decoded256& out) {
    fill(
        out, f16_to_f32(b.d), [&](int i) { return two_bits(b.q, i); },
        [&](int j) { return b.scales[j] & 15; });
    for (int j = 0; j < 16; ++j) out.min[j] = b.scales[j] >> 4;
    out.dmin = f16_to_f32(b.dmin);
  }
};

template <>
struct Format<DType::Q3_K> : Super256Format<BlockQ3_K> {
  static_assert(sizeof(Block) == 110);
  static constexpr DecodeTraits kTraits{-4, 3, 16, -32, 31, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto scale = [&](int j) {
      const int low = b.scales[j % 8] >> (j / 8 * 4) & 15,
                high = b.scales[8 + j % 4] >> (j / 4 * 2) & 3;
      return (low | high << 4) - 32;
    };
    fill(
        out, f16_to_f32(b.d), [&](int i) { return two_bits(b.lo, i) + 4 * bit_plane(b.hi, i) - 4; },
        scale);
  }
};

template <>
struct Format<DType::Q4_K> : Super256Format<BlockQ4_K> {
  static_assert(sizeof(Block) == 144);
  static constexpr DecodeTraits kTraits{0, 15, 32, 0, 63, true};
  static void decode(const Block& b, Decoded256& out) {
    for (int i = 0; i < 256; ++i) out.q[i] = static_cast<std::int8_t>(nibble_of_64(b.lo, i));
    unpack_scales_and_mins(b.scales, out);
    out.d = f16_to_f32(b.d);
    out.dmin = f16_to_f32(b.dmin);
  }
};

template <>
struct Format<DType::Q5_K> : Super256Format<BlockQ5_K> {
  static_assert(sizeof(Block) == 176);
  static constexpr DecodeTraits kTraits{0, 31, 32, 0, 63, true};
  static void decode(const Block& b, Decoded256& out) {
    for (int i = 0; i < 256; ++i)
      out.q[i] = static_cast<std::int8_t>(nibble_of_64(b.lo, i) + 16 * bit_plane(b.hi, i));
    unpack_scales_and_mins(b.scales, out);
    out.d = f16_to_f32(b.d);
    out.dmin = f16_to_f32(b.dmin);
  }
};

template <>
struct Format<DType::Q6_K> : Super256Format<BlockQ6_K> {
  static_assert(sizeof(Block) == 210);
  static constexpr DecodeTraits kTraits{-32, 31, 16, -128, 127, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto low = [&](int i) { return b.lo[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15; };
    fill(
        out, f16_to_f32(b.d), [&](int i) { return (low(i) | two_bits(b.hi, i) << 4) - 32; },
        [&](int j) { return int{b.scales[j]}; });
  }
};

/// Only ever activations: never a weight matrix.
template <>
struct Format<DType::Q8_1> {
  using Block = BlockQ8_1;
  static_assert(sizeof(Block) == 36);
  static constexpr DotClass kClass = DotClass::None;
  static constexpr std::uint32_t kBlockValues = 32;
  static void dequantize(const std::byte* blocks, float* out, std::size_t n) {
    for (std::size_t b = 0; b < n / kBlockValues; ++b) {
      const auto block = load_block<Block>(blocks + b * sizeof(Block));
      for (const std::int8_t q : block.q) *out++ = f16_to_f32(block.d) * q;
    }
  }
};

/// Only ever activations: never a weight matrix, never in a file.
template <>
struct Format<DType::Q8_K> {
  using Block = BlockQ8_K;
  static_assert(sizeof(Block) == 292);
  static constexpr DotClass kClass = DotClass::None;
  static constexpr std::uint32_t kBlockValues = 256;
  static void dequantize(const std::byte* blocks, float* out, std::size_t n) {
    for (std::size_t b = 0; b < n / kBlockValues; ++b) {
      const auto block = load_block<Block>(blocks + b * sizeof(Block));
      for (const std::int8_t q : block.q) *out++ = block.d * q;
    }
  }
};

// The ternary types: 256 values of -1, 0, 1 times one scale.

#pragma pack(push, 1)
struct BlockTQ1_0 {    // 1.6875 bits per weight: d*(trit - 1)
  std::uint8_t q[48];  // five trits a byte: 32 bytes with values 0…159, 16 bytes with values
                       // 160…239, in five runs each, one trit of every byte per run
  std::uint8_t qh[4];  // four trits a byte: values 240…255 in four runs
  F16Bits d;
};
struct BlockTQ2_0 {    // 2.0625 bits: d*(two bits - 1)
  std::uint8_t q[64];  // per half of 128: bits 2j, 2j+1 of byte l are value 32j + l
  F16Bits d;
};
#pragma pack(pop)

template <>
struct Format<DType::TQ1_0> : Super256Format<BlockTQ1_0> {
  static_assert(sizeof(Block) == 54);
  static constexpr DecodeTraits kTraits{-1, 1, 256, 1, 1, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto q = [&](int i) {
      if (i < 160) return trit(b.q[i % 32], i / 32) - 1;
      if (i < 240) return trit(b.q[32 + i % 16], (i - 160) / 16) - 1;
      return trit(b.qh[i % 4], (i - 240) / 4) - 1;
    };
    fill(out, f16_to_f32(b.d), q, [](int) { return 1; });
  }

 private:
  /// A byte holds trits as the digits of a base-3 fraction of 256. Multiplying by 3^n modulo 256
  /// drops the first n digits, and the next one is the integer part of three times the rest. Any
  /// byte yields 0…2.
  static int trit(std::uint8_t byte, int n) {
    constexpr int kPow3[5] = {1, 3, 9, 27, 81};
    return (byte * kPow3[n] & 255) * 3 >> 8;
  }
};

template <>
struct Format<DType::TQ2_0> : Super256Format<BlockTQ2_0> {
  static_assert(sizeof(Block) == 66);
  static constexpr DecodeTraits kTraits{-1, 2, 256, 1, 1, false};
  static void decode(const Block& b, Decoded256& out) {
    fill(
        out, f16_to_f32(b.d), [&](int i) { return two_bits(b.q, i) - 1; }, [](int) { return 1; });
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
