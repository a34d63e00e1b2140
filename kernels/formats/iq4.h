// IQ4_NL, IQ4_XS, IQ4_KS and IQ4_KSS: nibbles that stand for sixteen values, closer together near
// 0.
#pragma once

#include "kernels/formats/format.h"
#include "kernels/formats/iq_tables.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

#pragma pack(push, 1)
struct BlockIQ4_NL {  // 4.5 bits per weight: d*kIq4Values[nibble]
  F16Bits d;
  std::uint8_t lo[16];  // low nibbles: values 0…15, high nibbles: 16…31
};
struct BlockIQ4_XS {  // 4.25 bits: d*(scale - 32)*kIq4Values[nibble], sub-blocks of 32
  F16Bits d;
  std::uint16_t scales_hi;    // bits 2j, 2j+1: the top two bits of scale j
  std::uint8_t scales_lo[4];  // nibble j: the low four bits of scale j
  std::uint8_t lo[128];       // per 32 values as in IQ4_NL
};
/// Optional shift of all values of a sub-block of IQ4_KS.
inline constexpr int kIq4Shift = 4;
struct BlockIQ4_KS {  // 4.25 bits: d*scale*(kIq4Values[nibble] + shift), sub-blocks of 32; d is the
                      // row's
  static constexpr auto& kValues = kIq4Values;
  static constexpr int kShift = kIq4Shift;
  std::uint8_t scales[8];  // bits 1…7: (scale + 127)/2, scale is odd; bit 0: the shift is kIq4Shift
  std::uint8_t lo[128];    // per 32 values as in IQ4_NL
};
struct BlockIQ4_KSS {  // 4 bits: as IQ4_KS
  static constexpr auto& kValues = kIq4Values;
  static constexpr int kShift = kIq4Shift;
  // Sub-block j: bit 0 of word k is bit k of its scale as in IQ4_KS. The other bits hold the
  // nibbles of IQ4_NL, of which the words have an even number of ones: x ^ x >> 1 brings them back.
  std::uint16_t words[8][8];
};
#pragma pack(pop)

/// Value i of nibbles that lie per 32 values as in IQ4_NL.
inline int iq4_value(const std::uint8_t* lo, int i) {
  return kIq4Values[static_cast<std::size_t>(nibble_of_32(lo + i / 32 * 16, i % 32))];
}

template <>
struct Format<DType::IQ4_NL> : Blocks32Format<BlockIQ4_NL> {
  static_assert(sizeof(Block) == 18);
  static constexpr DecodeTraits kTraits{-127, 113, 32, 1, 1, false};
  static void decode(const Block& b, Decoded32& out) {
    fill(out, f16_to_f32(b.d), 0, [&](int i) { return iq4_value(b.lo, i); });
  }
};

template <>
struct Format<DType::IQ4_XS> : Super256Format<BlockIQ4_XS> {
  static_assert(sizeof(Block) == 136);
  static constexpr DecodeTraits kTraits{-127, 113, 32, -32, 31, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto scale = [&](int j) {
      return (nibble_at(b.scales_lo, j / 2) | (b.scales_hi >> (j / 2 * 2) & 3) << 4) - 32;
    };
    fill(
        out, f16_to_f32(b.d), [&](int i) { return iq4_value(b.lo, i); }, scale);
  }
};

template <>
struct Format<DType::IQ4_KS> : Super256Format<BlockIQ4_KS> {
  static_assert(sizeof(Block) == 136);
  using Header = F32Header<>;
  static constexpr DecodeTraits kTraits{-127, 113 + kIq4Shift, 32, -127, 127, false};
  static void decode(const Block& b, Decoded256& out) {
    fill(
        out, 1, [&](int i) { return iq4_value(b.lo, i) + (b.scales[i / 32] & 1) * kIq4Shift; },
        [&](int j) { return (b.scales[j / 2] & 254) - 127; });
  }
};

template <>
struct Format<DType::IQ4_KSS> : Super256Format<BlockIQ4_KSS> {
  static_assert(sizeof(Block) == 128);
  using Header = F32Header<>;
  static constexpr DecodeTraits kTraits{-127, 113 + kIq4Shift, 32, -127, 127, false};
  static void decode(const Block& b, Decoded256& out) {
    std::uint8_t scales[8] = {}, nibbles[128];
    for (int k = 0; k < 64; ++k) {
      const unsigned word = b.words[k / 8][k % 8], even = word & 0xFFFEU;
      scales[k / 8] = static_cast<std::uint8_t>(scales[k / 8] | (word & 1U) << (k % 8));
      const auto restored = static_cast<std::uint16_t>(even ^ even >> 1);
      std::memcpy(nibbles + 2 * k, &restored, sizeof restored);
    }
    fill(
        out, 1, [&](int i) { return iq4_value(nibbles, i) + (scales[i / 32] & 1) * kIq4Shift; },
        [&](int j) { return (scales[j / 2] & 254) - 127; });
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
