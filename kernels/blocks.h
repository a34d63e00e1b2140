// The blocks of quantized tensors as they lie in a file: little-endian, no padding, any alignment.
// Value i is meant in the order of the row. Which values a byte holds is said at each block; decode_*.cpp
// says it in code.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cria {

static_assert(std::endian::native == std::endian::little, "blocks are read as they lie in the file");

using F16Bits = std::uint16_t;           ///< IEEE binary16, see kernels/f16.h
inline constexpr float kF16Max = 65504;  ///< the largest finite

#pragma pack(push, 1)

// ---- 32 values
// -------------------------------------------------------------------------------------------------------------
// Nibble i of `lo` is value i (low nibbles: 0…15, high nibbles: 16…31); bit i of `hi` is the fifth bit of
// value i.

struct BlockQ4_0 {  // 4.5 bits per weight: d*(nibble - 8)
  F16Bits d;
  std::uint8_t lo[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

struct BlockQ4_1 {  // 5 bits: d*nibble + m
  F16Bits d, m;
  std::uint8_t lo[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

struct BlockQ5_0 {  // 5.5 bits: d*(five bits - 16)
  F16Bits d;
  std::uint32_t hi;
  std::uint8_t lo[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

struct BlockQ5_1 {  // 6 bits: d*(five bits) + m
  F16Bits d, m;
  std::uint32_t hi;
  std::uint8_t lo[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

struct BlockQ8_0 {  // 8.5 bits: d*q
  F16Bits d;
  std::int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

struct BlockQ8_1 {  // 9 bits: d*q; sum is d*Σq, kept for products, and says nothing about the values
  F16Bits d, sum;
  std::int8_t q[32];
};
static_assert(sizeof(BlockQ8_1) == 36);

struct BlockIQ4_NL {  // 4.5 bits: d*kIq4Values[nibble]
  F16Bits d;
  std::uint8_t lo[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// ---- 256 values: K types
// ---------------------------------------------------------------------------------------------------

struct BlockQ2_K {          // 2.625 bits: d*scale*q - dmin*min, sub-blocks of 16
  std::uint8_t scales[16];  // low nibble: scale, high nibble: min
  std::uint8_t q[64];       // per half of 128: bits 2j, 2j+1 of byte l are value 32j + l
  F16Bits d, dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

struct BlockQ3_K {      // 3.4375 bits: d*(scale - 32)*(q - 4), sub-blocks of 16
  std::uint8_t hi[32];  // bit j of byte l: the third bit of value 32j + l
  std::uint8_t lo[64];  // as q of Q2_K
  std::uint8_t
      scales[12];  // low four bits of scale j: nibbles of bytes 0…7; high two: bits 2(j/4) of byte 8 + j%4
  F16Bits d;
};
static_assert(sizeof(BlockQ3_K) == 110);

struct BlockQ4_K {  // 4.5 bits: d*scale*q - dmin*min, sub-blocks of 32
  F16Bits d, dmin;
  std::uint8_t scales[12];  // eight 6-bit scales and mins, see unpack_scales_and_mins in decode_k.cpp
  std::uint8_t lo[128];     // per 64 values: byte l holds values l (low nibble) and 32 + l (high nibble)
};
static_assert(sizeof(BlockQ4_K) == 144);

struct BlockQ5_K {  // 5.5 bits: as Q4_K with a fifth bit
  F16Bits d, dmin;
  std::uint8_t scales[12];
  std::uint8_t hi[32];  // bit j of byte l: the fifth bit of value 32j + l
  std::uint8_t lo[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

struct BlockQ6_K {  // 6.5625 bits: d*scale*(q - 32), sub-blocks of 16
  std::uint8_t
      lo[128];  // per half of 128: byte l (0…63) holds values l (low nibble) and 64 + l (high nibble)
  std::uint8_t hi[64];  // per half: bits 2j, 2j+1 of byte l are the top bits of value 32j + l
  std::int8_t scales[16];
  F16Bits d;
};
static_assert(sizeof(BlockQ6_K) == 210);

struct BlockQ8_K {  // 9.125 bits: d*q; sums of 16 q, kept for products, say nothing about the values
  float d;
  std::int8_t q[256];
  std::int16_t sums[16];
};
static_assert(sizeof(BlockQ8_K) == 292);

// ---- 256 values: codebooks
// ------------------------------------------------------------------------------------------------- Values
// come in groups of eight (IQ1, IQ2) or four (IQ3) that a codebook of kernels/iq_tables.h lists; signs are a
// bit per value (set: negative), and seven bits of sign mean that the eighth makes the number of negative
// values even.

struct BlockIQ2_XXS {  // 2.0625 bits: d/8*(2s+1)*±grid, sub-blocks of 32
  F16Bits d;
  struct {
    std::uint8_t index[4];      // of each group of eight
    std::uint32_t signs_scale;  // four times seven bits of sign, then s in the top four bits
  } sub[8];
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

struct BlockIQ2_XS {  // 2.3125 bits: d/8*(2s+1)*±grid, sub-blocks of 16
  F16Bits d;
  std::uint16_t q[32];     // per group: nine bits of index, seven of sign
  std::uint8_t scales[8];  // nibble j: s of sub-block j
};
static_assert(sizeof(BlockIQ2_XS) == 74);

struct BlockIQ2_S {  // 2.5625 bits: d/8*(2s+1)*±grid, sub-blocks of 16
  F16Bits d;
  std::uint8_t index[32];  // low eight bits per group
  std::uint8_t signs[32];
  std::uint8_t index_hi[8];  // bits 2j, 2j+1 of byte b: the top two bits of index 4b + j
  std::uint8_t scales[8];    // nibble j: s of sub-block j
};
static_assert(sizeof(BlockIQ2_S) == 82);

struct BlockIQ3_XXS {  // 3.0625 bits: d/4*(2s+1)*±grid, sub-blocks of 32
  F16Bits d;
  std::uint8_t index[64];        // of each group of four
  std::uint32_t signs_scale[8];  // as in IQ2_XXS
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

struct BlockIQ3_S {  // 3.4375 bits: d*(2s+1)*±grid, sub-blocks of 32
  F16Bits d;
  std::uint8_t index[64];    // low eight bits per group of four
  std::uint8_t index_hi[8];  // bit j of byte b: the ninth bit of index 8b + j
  std::uint8_t signs[32];
  std::uint8_t scales[4];  // nibble j: s of sub-block j
};
static_assert(sizeof(BlockIQ3_S) == 110);

struct BlockIQ1_S {  // 1.5625 bits: d*(2s+1)*(grid ± 1/8), sub-blocks of 32
  F16Bits d;
  std::uint8_t index[32];  // low eight bits per group of eight
  std::uint16_t
      hi[8];  // per sub-block: four times three top bits of index, three bits s, the sign of 1/8 (set: minus)
};
static_assert(sizeof(BlockIQ1_S) == 50);

struct BlockIQ1_M {         // 1.75 bits: d*(2s+1)*(grid ± 1/8), sub-blocks of 16
  std::uint8_t index[32];   // low eight bits per group of eight
  std::uint8_t hi[16];      // nibble per group: three top bits of index, the sign of 1/8 (set: minus)
  std::uint16_t scales[4];  // per 64 values: four times three bits s; the top nibbles together are d (f16),
                            // lowest first
};
static_assert(sizeof(BlockIQ1_M) == 56);

struct BlockIQ4_XS {  // 4.25 bits: d*(scale - 32)*kIq4Values[nibble], sub-blocks of 32
  F16Bits d;
  std::uint16_t scales_hi;    // bits 2j, 2j+1: the top two bits of scale j
  std::uint8_t scales_lo[4];  // nibble j: the low four bits of scale j
  std::uint8_t lo[128];       // per 32 values as in IQ4_NL
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// ---- 256 values: ternary
// ---------------------------------------------------------------------------------------------------

struct BlockTQ1_0 {    // 1.6875 bits: d*(trit - 1)
  std::uint8_t q[48];  // five trits a byte, see decode_ternary.cpp
  std::uint8_t qh[4];  // four trits a byte
  F16Bits d;
};
static_assert(sizeof(BlockTQ1_0) == 54);

struct BlockTQ2_0 {    // 2.0625 bits: d*(two bits - 1)
  std::uint8_t q[64];  // per half of 128: bits 2j, 2j+1 of byte l are value 32j + l
  F16Bits d;
};
static_assert(sizeof(BlockTQ2_0) == 66);

#pragma pack(pop)

/// The block at p, whatever its alignment.
template <class Block>
Block load_block(const std::byte* p) {
  Block block;
  std::memcpy(&block, p, sizeof block);
  return block;
}

}  // namespace cria
