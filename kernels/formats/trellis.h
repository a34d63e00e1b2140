// IQ1_KT … IQ4_KT: codes are where a pseudo-random sequence starts, whose next four or eight
// numbers are the values (a trellis). d is the row's.
#pragma once

#include <array>

#include "kernels/formats/iq4.h"
#include "kernels/formats/k.h"
#include "kernels/simd/namespace.h"

namespace cria {

/// Number k of a sequence is start·kTrellisFactors[k] modulo 2^32.
inline constexpr std::array<std::uint32_t, 8> kTrellisFactors = [] {
  std::array<std::uint32_t, 8> factors{};
  std::uint32_t power = 1;
  for (std::uint32_t& factor : factors) factor = power *= 0xCBAC1FEDU;
  return factors;
}();
/// Its value is the sum of the low six bits of its four bytes, less this.
inline constexpr int kTrellisMean = 126;
/// The start of code 0.
inline constexpr std::uint32_t kTrellisStart = 4096;

inline namespace CRIA_ISA_NAMESPACE {

#pragma pack(push, 1)
struct BlockIQ1_KT {       // 1.75 bits per weight: d*kIq4Values[scale]*value, sub-blocks of 32
  std::uint8_t scales[8];  // low nibbles: scales; bit 4 + k: the top bit of code 4j + k
  std::uint8_t lo[32];     // the low eight of thirteen bits of 32 codes
  std::uint8_t hi[16];     // four more; low nibbles: codes 0…15, high nibbles: 16…31
};
struct BlockIQ2_KT {       // 2.125 bits: d*kIq4Values[scale]*value, sub-blocks of 32
  std::uint8_t scales[4];  // low nibbles: scales 0…3, high nibbles: 4…7
  std::uint16_t codes[32];
};
struct BlockIQ3_KT {  // 3.125 bits: d*scale*(value's magnitude or its negative), sub-blocks of 32
  std::uint8_t scales[4];
  std::uint16_t codes[32];
  std::uint8_t signs[32];  // as hi of Q3_K: 1 for negative values
};
struct BlockIQ4_KT {  // 4 bits: d*(scale - 64)*value, sub-blocks of 32 with eight codes
  // Bit 0: sequences start 2^15 later; bits 1…7: scale; bits 8 + 3k…: the top three of fifteen bits
  // of code k.
  std::uint32_t head[8];
  std::uint8_t lo[64];  // the low eight bits of codes
  std::uint8_t hi[32];  // four more; low nibbles: codes 0…31, high nibbles: 32…63
};
#pragma pack(pop)

/// Value k of the sequence from `start` on.
inline int trellis_value(std::uint32_t start, int k) {
  const std::uint32_t x = start * kTrellisFactors[static_cast<std::size_t>(k)] & 0x3F3F3F3FU;
  return static_cast<int>((x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24)) - kTrellisMean;
}
/// Value i of a block whose codes stand for eight values each.
inline int trellis_value_of_8(const std::uint16_t (&codes)[32], int i) {
  return trellis_value(codes[i / 8] + kTrellisStart, i % 8);
}

/// kTrellis: its rarest values are one in thousands.
template <class Block>
struct TrellisFormat : Super256Format<Block> {
  static constexpr bool kTrellis = true, kReadOnly = true;
};

template <>
struct Format<DType::IQ1_KT> : TrellisFormat<BlockIQ1_KT> {
  static_assert(sizeof(Block) == 56);
  using Header = F32Header<>;
  static constexpr DecodeTraits kTraits{-121, 119, 32, -127, 113, false};
  static void decode(const Block& b, Decoded256& out) {
    std::uint16_t codes[32];
    for (int g = 0; g < 32; ++g) {
      const int middle = b.hi[g % 16] >> (g / 16 * 4) & 15,
                top = b.scales[g / 4] >> (4 + g % 4) & 1;
      codes[g] = static_cast<std::uint16_t>(b.lo[g] | middle << 8 | top << 12);
    }
    fill(
        out, 1, [&](int i) { return trellis_value_of_8(codes, i); },
        [&](int j) { return kIq4Values[b.scales[j / 2] & 15U]; });
  }
};

template <>
struct Format<DType::IQ2_KT> : TrellisFormat<BlockIQ2_KT> {
  static_assert(sizeof(Block) == 68);
  using Header = F32Header<105>;
  static constexpr DecodeTraits kTraits{-122, 123, 32, -127, 113, false};
  static void decode(const Block& b, Decoded256& out) {
    std::uint16_t codes[32];
    std::memcpy(codes, b.codes, sizeof codes);
    fill(
        out, 1, [&](int i) { return trellis_value_of_8(codes, i); },
        [&](int j) {
          return kIq4Values[static_cast<std::size_t>(halved_nibble(b.scales, j / 2))];
        });
  }
};

template <>
struct Format<DType::IQ3_KT> : TrellisFormat<BlockIQ3_KT> {
  static_assert(sizeof(Block) == 100);
  using Header = F32Header<101>;
  static constexpr DecodeTraits kTraits{-123, 123, 32, 0, 15, false};
  static void decode(const Block& b, Decoded256& out) {
    std::uint16_t codes[32];
    std::memcpy(codes, b.codes, sizeof codes);
    const auto value = [&](int i) {
      const int number = trellis_value_of_8(codes, i), size = number < 0 ? -number : number;
      return bit_plane(b.signs, i) != 0 ? -size : size;
    };
    fill(out, 1, value, [&](int j) { return halved_nibble(b.scales, j / 2); });
  }
};

template <>
struct Format<DType::IQ4_KT> : TrellisFormat<BlockIQ4_KT> {
  static_assert(sizeof(Block) == 128);
  using Header = F32Header<>;
  static constexpr DecodeTraits kTraits{-120, 122, 32, -64, 63, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto value = [&](int i) {
      const int g = i / 4;
      const std::uint32_t head = b.head[g / 8];
      const std::uint32_t middle = b.hi[g % 32] >> (g / 32 * 4) & 15U,
                          top = head >> (8 + 3 * (g % 8)) & 7;
      return trellis_value((b.lo[g] | middle << 8 | top << 12) + kTrellisStart + (head & 1) * 32768,
                           i % 4);
    };
    fill(out, 1, value, [&](int j) { return static_cast<int>(b.head[j / 2] >> 1 & 127) - 64; });
  }
};

template <DType type>
inline constexpr bool kTrellis = requires {
  requires Format<type>::kTrellis;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
