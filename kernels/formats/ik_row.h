// Rows that begin with d. IQ2_KS, IQ3_KS, IQ5_KS: codes that stand for values of a table, which a
// bit per sub-block may shift. IQ2_KL: codes that stand for pairs of such values. IQ2_BN: ternary.
// IQ1_M_R1: as IQ1_M.
#pragma once

#include <array>

#include "kernels/formats/blocks32.h"
#include "kernels/formats/ik.h"
#include "kernels/formats/iq.h"
#include "kernels/formats/k.h"
#include "kernels/simd/namespace.h"

namespace cria {

/// The pairs of IQ2_KL by code, as indices into kIq3Values: 8·first + second.
inline constexpr std::array<std::uint8_t, 32> kIq2klPairs = {
    002, 005, 010, 013, 015, 017, 021, 022, 024, 025, 026, 030, 034, 035, 037, 042,
    043, 044, 045, 046, 051, 052, 053, 054, 055, 060, 062, 064, 066, 067, 072, 075};

inline namespace CRIA_ISA_NAMESPACE {

#pragma pack(push, 1)
struct BlockIQ5_KS {  // 5.25 bits: d*scale*value, sub-blocks of 32; d is the row's
  static constexpr auto& kValues = kIq5Values;
  static constexpr int kShift = 2;
  std::uint8_t scales[8];  // as IQ4_KS
  std::uint8_t lo[128], hi[32];
};
struct BlockIQ2_KS {  // 2.1875 bits: d*(scale - 16)*value, sub-blocks of 32; d is the row's
  static constexpr auto& kValues = kIq2Values;
  static constexpr int kShift = 5;
  std::uint8_t shifts;     // bit j: the values of sub-block j are shifted
  std::uint8_t scales_hi;  // bit j: the fifth bit of scale j
  std::uint8_t scales[4];  // nibble j: the low four bits of scale j
  std::uint8_t q[64];      // as q of Q2_K
};
struct BlockIQ3_KS {  // 3.1875 bits: d*(scale - 16)*value, sub-blocks of 32; d is the row's
  static constexpr auto& kValues = kIq3Values;
  static constexpr int kShift = 4;
  std::uint8_t scales_hi, shifts;
  std::uint8_t scales[4];  // low nibbles: the low bits of scales 0…3, high nibbles: 4…7
  std::uint8_t lo[64];     // as q of Q2_K
  std::uint8_t hi[32];     // as hi of Q3_K
};
struct BlockIQ2_KL {  // 2.6875 bits: d*(scale - 32)*value, sub-blocks of 32; d is the row's
  static constexpr auto& kValues = kIq3Values;
  std::uint16_t scales_hi;  // bits 2j, 2j+1: the top two bits of scale j
  std::uint8_t scales[4];   // as scales of IQ3_KS
  std::uint8_t lo[64];      // per two sub-blocks sixteen bytes: low nibbles of their pairs' codes
  std::uint8_t hi[16];      // bit j of byte p: the fifth bit of the code of pair p of sub-block j
};
struct BlockIQ2_BN {   // 2 bits: d*(two bits - 1), 64 values; d is the row's
  std::uint8_t q[16];  // bits 2j, 2j + 1 of byte i: value 16j + i
};
struct BlockIQ1_M_R1 {  // 1.75 bits: d*scale*(grid ± 1/8), sub-blocks of 16; d is the row's
  std::uint8_t index[32], hi[16];  // as IQ1_M
  std::uint8_t scales[8];          // nibble j: scale of sub-block j
};
#pragma pack(pop)

template <>
struct Format<DType::IQ5_KS> : Super256Format<BlockIQ5_KS> {
  static_assert(sizeof(Block) == 168);
  using Header = F32Header<>;
  static constexpr DecodeTraits kTraits{-126, 121 + Block::kShift, 32, -127, 127, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto value = [&](int i) {
      const int code = nibble_of_64(b.lo, i) | bit_plane(b.hi, i) << 4;
      return kIq5Values[static_cast<std::size_t>(code)] + (b.scales[i / 32] & 1) * Block::kShift;
    };
    fill(out, 1, value, [&](int j) { return (b.scales[j / 2] & 254) - 127; });
  }
};

/// Scale j of IQ2_KS and IQ3_KS, given its low bits.
template <class Block>
int five_bit_scale(const Block& b, int j, int low) {
  return (low | (b.scales_hi >> j & 1) << 4) - 16;
}
/// The value of a code of theirs.
template <class Block>
int shifted_value(const Block& b, int i, int code) {
  return Block::kValues[static_cast<std::size_t>(code)] + (b.shifts >> i / 32 & 1) * Block::kShift;
}

template <>
struct Format<DType::IQ2_KS> : Super256Format<BlockIQ2_KS> {
  static_assert(sizeof(Block) == 70);
  using Header = F16Header;
  static constexpr DecodeTraits kTraits{-31, 17 + Block::kShift, 32, -16, 15, false};
  static void decode(const Block& b, Decoded256& out) {
    fill(
        out, 1, [&](int i) { return shifted_value(b, i, two_bits(b.q, i)); },
        [&](int j) { return five_bit_scale(b, j / 2, nibble_at(b.scales, j / 2)); });
  }
};

template <>
struct Format<DType::IQ3_KS> : Super256Format<BlockIQ3_KS> {
  static_assert(sizeof(Block) == 102);
  using Header = F16Header;
  static constexpr DecodeTraits kTraits{-63, 47 + Block::kShift, 32, -16, 15, false};
  static void decode(const Block& b, Decoded256& out) {
    fill(
        out, 1,
        [&](int i) { return shifted_value(b, i, two_bits(b.lo, i) | bit_plane(b.hi, i) << 2); },
        [&](int j) { return five_bit_scale(b, j / 2, halved_nibble(b.scales, j / 2)); });
  }
};

template <>
struct Format<DType::IQ2_KL> : Super256Format<BlockIQ2_KL> {
  static_assert(sizeof(Block) == 86);
  using Header = F16Header;
  static constexpr DecodeTraits kTraits{-63, 47, 32, -32, 31, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto value = [&](int i) {
      const int j = i / 32, p = i % 32 / 2;
      const auto code = static_cast<std::size_t>((b.lo[j / 2 * 16 + p] >> (j % 2 * 4) & 15) |
                                                 (b.hi[p] >> j & 1) << 4);
      return kIq3Values[i % 2 == 0 ? kIq2klPairs[code] / 8U : kIq2klPairs[code] % 8U];
    };
    const auto scale = [&](int j) {
      return (halved_nibble(b.scales, j / 2) | (b.scales_hi >> (j / 2 * 2) & 3) << 4) - 32;
    };
    fill(out, 1, value, scale);
  }
};

/// Ternary, but for the code 3, which files do not have.
template <>
struct Format<DType::IQ2_BN> : Blocks32Format<BlockIQ2_BN, 64> {
  static_assert(sizeof(Block) == 16);
  using Header = F32Header<>;
  static constexpr bool kReadOnly = true;
  static constexpr DecodeTraits kTraits{-1, 2, 32, 1, 1, false};
  static void decode(const Block& b, int group, Decoded32& out) {
    fill(out, 1, 0, [&](int i) { return (b.q[i % 16] >> (4 * group + i / 16 * 2) & 3) - 1; });
  }
};

/// The rows of IQ1_M_R4, whose scales IQ1_M cannot hold: one at a time, as no other program has
/// them.
template <>
struct Format<DType::IQ1_M_R1> : CodebookFormat<BlockIQ1_M_R1> {
  static_assert(sizeof(Block) == 56);
  struct Header : F16Header {  // times the eighth of the values
    [[nodiscard]] float scale() const { return F16Header::scale() / 8; }
  };
  static constexpr bool kReadOnly = true;
  static constexpr DecodeTraits kTraits{-9, 9, 16, 0, 15, false};
  static void decode(const Block& b, Decoded256& out) {
    fill(
        out, 1, [&](int i) { return value_of_iq1m(b, i); },
        [&](int j) { return nibble_at(b.scales, j); });
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
