// Types with one float scale per 32 values, or per 128.
#pragma once

#include "kernels/formats/format.h"

namespace cria {

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
struct BlockQ8_0 {  // 8.5 bits: d*q
  F16Bits d;
  std::int8_t q[32];
};
struct BlockQ1_0 {  // 1.125 bits: d where the bit is set, else -d; 128 values, lowest bit first
  F16Bits d;
  std::uint8_t bits[16];
};
struct BlockQ8_1 {  // 9 bits: d*q; sum is d*Σq, kept for products, and says nothing about the
                    // values
  F16Bits d, sum;
  std::int8_t q[32];
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

}  // namespace cria
