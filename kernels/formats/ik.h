// IQ2_K … IQ6_K: codes that stand for values of a table, closer together near 0. A bit per
// sub-block adds a constant, the shift, to all its values.
#pragma once

#include <array>

#include "kernels/formats/iq4.h"
#include "kernels/formats/k.h"
#include "kernels/simd/namespace.h"

namespace cria {

inline constexpr std::array<std::int8_t, 4> kIq2Values = {-31, -13, 1, 17};
inline constexpr std::array<std::int8_t, 8> kIq3Values = {-63, -40, -23, -10, 1, 13, 28, 47};
inline constexpr std::array<std::int8_t, 32> kIq5Values = {
    -126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
    -1,   5,    11,   17,  23,  29,  36,  43,  51,  59,  68,  77,  87,  97,  109, 121};
inline constexpr std::array<std::int8_t, 64> kIq6Values = {
    -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
    -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
    -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
    47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};

inline namespace CRIA_ISA_NAMESPACE {

#pragma pack(push, 1)
struct BlockIQ2_K {  // 2.375 bits per weight: d*(scale - 8)*value, sub-blocks of 16
  static constexpr auto& kValues = kIq2Values;
  static constexpr int kShift = 5;
  F16Bits d;
  std::uint16_t extra;     // bit j: the values of sub-block j are shifted
  std::uint8_t scales[8];  // nibble j: scale j
  std::uint8_t q[64];      // as q of Q2_K
};
struct BlockIQ3_K {  // 3.4375 bits: d*(2*scale + 1)*value or its negative, sub-blocks of 16
  static constexpr auto& kValues = kIq3Values;
  static constexpr int kShift = 4;
  F16Bits d;
  std::uint16_t extra;
  std::uint16_t signs;  // bit j: sub-block j is negated
  std::uint8_t scales[8];
  std::uint8_t lo[64];  // as q of Q2_K
  std::uint8_t hi[32];  // as hi of Q3_K
};
struct BlockIQ4_K {  // 4.5 bits: d*(scale - 32)*value, sub-blocks of 16
  static constexpr auto& kValues = kIq4Values;
  static constexpr int kShift = kIq4Shift;
  F16Bits d;
  std::uint16_t extra;
  std::uint8_t scales_hi[4];  // bits 2k, 2k+1 of byte l: the top two bits of scale 4l + k
  std::uint8_t scales_lo[8];  // nibble j: the low four bits of scale j
  std::uint8_t lo[128];       // per 32 values as in IQ4_NL
};
struct BlockIQ5_K {  // 5.5 bits: as IQ4_K with a fifth bit
  static constexpr auto& kValues = kIq5Values;
  static constexpr int kShift = 2;
  F16Bits d;
  std::uint16_t extra;
  std::uint8_t scales_hi[4], scales_lo[8];
  std::uint8_t lo[128];  // as lo of Q5_K
  std::uint8_t hi[32];   // as hi of Q5_K
};
struct BlockIQ6_K {  // 6.625 bits: d*scale*value, sub-blocks of 16
  static constexpr auto& kValues = kIq6Values;
  static constexpr int kShift = 1;
  F16Bits d;
  std::uint16_t extra;
  std::int8_t scales[16];
  std::uint8_t lo[128];  // as lo of Q5_K
  std::uint8_t hi[64];   // per half of 128: bits 2j, 2j+1 of byte l are the top of value 32j + l
};
#pragma pack(pop)

/// Base of the formats: the value of a code in a sub-block of 16.
template <class Block_, int scale_min, int scale_max>
struct TableFormat : Super256Format<Block_> {
  static constexpr DecodeTraits kTraits{Block_::kValues.front(),
                                        Block_::kValues.back() + Block_::kShift,
                                        16,
                                        scale_min,
                                        scale_max,
                                        false};

 protected:
  template <class CodeOf, class ScaleOf>
  static void fill_codes(const Block_& b, Decoded256& out, CodeOf code_of, ScaleOf scale_of) {
    const auto value = [&](int i) {
      return Block_::kValues[static_cast<std::size_t>(code_of(i))] +
             (b.extra >> (i / 16) & 1) * Block_::kShift;
    };
    Super256Format<Block_>::fill(out, f16_to_f32(b.d), value, scale_of);
  }
  /// Scale j of IQ4_K and IQ5_K.
  static int six_bits(const Block_& b, int j) {
    return (nibble_at(b.scales_lo, j) | (b.scales_hi[j / 4] >> (j % 4 * 2) & 3) << 4) - 32;
  }
};

template <>
struct Format<DType::IQ2_K> : TableFormat<BlockIQ2_K, -8, 7> {
  static_assert(sizeof(Block) == 76);
  static void decode(const Block& b, Decoded256& out) {
    fill_codes(
        b, out, [&](int i) { return two_bits(b.q, i); },
        [&](int j) { return nibble_at(b.scales, j) - 8; });
  }
};

template <>
struct Format<DType::IQ3_K> : TableFormat<BlockIQ3_K, -31, 31> {
  static_assert(sizeof(Block) == 110);
  static void decode(const Block& b, Decoded256& out) {
    fill_codes(
        b, out, [&](int i) { return two_bits(b.lo, i) | bit_plane(b.hi, i) << 2; },
        [&](int j) {
          const int size = 2 * nibble_at(b.scales, j) + 1;
          return (b.signs >> j & 1) != 0 ? -size : size;
        });
  }
};

template <>
struct Format<DType::IQ4_K> : TableFormat<BlockIQ4_K, -32, 31> {
  static_assert(sizeof(Block) == 144);
  static void decode(const Block& b, Decoded256& out) {
    fill_codes(
        b, out, [&](int i) { return nibble_of_32(b.lo + i / 32 * 16, i % 32); },
        [&](int j) { return six_bits(b, j); });
  }
};

template <>
struct Format<DType::IQ5_K> : TableFormat<BlockIQ5_K, -32, 31> {
  static_assert(sizeof(Block) == 176);
  static void decode(const Block& b, Decoded256& out) {
    fill_codes(
        b, out, [&](int i) { return nibble_of_64(b.lo, i) | bit_plane(b.hi, i) << 4; },
        [&](int j) { return six_bits(b, j); });
  }
};

template <>
struct Format<DType::IQ6_K> : TableFormat<BlockIQ6_K, -128, 127> {
  static_assert(sizeof(Block) == 212);
  static void decode(const Block& b, Decoded256& out) {
    fill_codes(
        b, out, [&](int i) { return nibble_of_64(b.lo, i) | two_bits(b.hi, i) << 4; },
        [&](int j) { return int{b.scales[j]}; });
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
