// The codebook types: 256 values in groups of eight (IQ1, IQ2) or four (IQ3) from a codebook of
// kernels/formats/iq_tables.h. Every index is valid. Signs are a bit per value (set: negative); if
// seven bits of sign are stored, the eighth makes the number of negative values even.
#pragma once

#include "kernels/formats/format.h"
#include "kernels/formats/iq_tables.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

#pragma pack(push, 1)
struct BlockIQ2_XXS {  // 2.0625 bits per weight: d/8*(2s+1)*±grid, sub-blocks of 32
  F16Bits d;
  struct {
    std::uint8_t index[4];      // per group of eight
    std::uint32_t signs_scale;  // four times seven bits of sign, then s in the top four bits
  } sub[8];
};
struct BlockIQ2_XS {  // 2.3125 bits: d/8*(2s+1)*±grid, sub-blocks of 16
  F16Bits d;
  std::uint16_t q[32];     // per group: nine bits of index, seven of sign
  std::uint8_t scales[8];  // nibble j: s of sub-block j
};
struct BlockIQ2_S {  // 2.5625 bits: d/8*(2s+1)*±grid, sub-blocks of 16
  F16Bits d;
  std::uint8_t index[32];  // low eight bits per group
  std::uint8_t signs[32];
  std::uint8_t index_hi[8];  // bits 2j, 2j+1 of byte b: the top two bits of index 4b + j
  std::uint8_t scales[8];    // nibble j: s of sub-block j
};
struct BlockIQ3_XXS {  // 3.0625 bits: d/4*(2s+1)*±grid, sub-blocks of 32
  F16Bits d;
  std::uint8_t index[64];        // per group of four
  std::uint32_t signs_scale[8];  // as in IQ2_XXS
};
struct BlockIQ3_S {  // 3.4375 bits: d*(2s+1)*±grid, sub-blocks of 32
  F16Bits d;
  std::uint8_t index[64];    // low eight bits per group of four
  std::uint8_t index_hi[8];  // bit j of byte b: the ninth bit of index 8b + j
  std::uint8_t signs[32];
  std::uint8_t scales[4];  // nibble j: s of sub-block j
};
struct BlockIQ1_S {  // 1.5625 bits: d*(2s+1)*(grid ± 1/8), sub-blocks of 32
  F16Bits d;
  std::uint8_t index[32];  // low eight bits per group of eight
  // Per sub-block: four times three top bits of index, three bits s, the sign of 1/8 (set: minus).
  std::uint16_t hi[8];
};
struct BlockIQ1_M {        // 1.75 bits: d*(2s+1)*(grid ± 1/8), sub-blocks of 16
  std::uint8_t index[32];  // low eight bits per group of eight
  std::uint8_t hi[16];  // nibble per group: three top bits of index, the sign of 1/8 (set: minus)
  std::uint16_t
      scales[4];  // per 64 values: four times three bits s; the top nibbles are d, lowest first
};
#pragma pack(pop)

/// Helpers of the codebook types' decoders.
template <class Block_>
struct CodebookFormat : Super256Format<Block_> {
  static constexpr bool kCodebook = true;

 protected:
  /// Value g of a codebook entry, negative where bit g of signs is set.
  static int signed_value(std::uint64_t entry, int g, int signs) {
    const auto magnitude = static_cast<int>(entry >> (8 * g) & 255);
    return signs >> g & 1 ? -magnitude : magnitude;
  }
  /// Eight values of two groups of four as one entry.
  static std::uint64_t join(std::uint32_t first, std::uint32_t second) {
    return first | static_cast<std::uint64_t>(second) << 32;
  }
  /// Seven sign bits for each of four groups of eight and a four-bit scale.
  static int packed_signs(std::uint32_t signs_scale, int group) {
    return even_signs(signs_scale >> (7 * group));
  }
  /// Value i of IQ1_M and IQ1_M_R1.
  static int value_of_iq1m(const Block_& b, int i) {
    const auto hi = static_cast<unsigned>(nibble_at(b.hi, i / 8));
    return shifted_value(kIq1Grid[b.index[i / 8] | (hi & 7U) << 8], i % 8, hi >> 3);
  }
  /// Value g of an IQ1 entry, which is eight times the grid, moved by the eighth that minus tells.
  static int shifted_value(std::uint64_t entry, int g, bool minus) {
    return static_cast<std::int8_t>(entry >> (8 * g) & 255) + (minus ? -1 : 1);
  }
};

template <>
struct Format<DType::IQ2_XXS> : CodebookFormat<BlockIQ2_XXS> {
  static_assert(sizeof(Block) == 66);
  static constexpr DecodeTraits kTraits{-43, 43, 32, 1, 31, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto q = [&](int i) {
      const auto& sub = b.sub[i / 32];
      return signed_value(kIq2xxsGrid[sub.index[i / 8 % 4]], i % 8,
                          packed_signs(sub.signs_scale, i / 8 % 4));
    };
    fill(out, f16_to_f32(b.d) / 8, q,
         [&](int j) { return 2 * (b.sub[j / 2].signs_scale >> 28) + 1; });
  }
};

template <>
struct Format<DType::IQ2_XS> : CodebookFormat<BlockIQ2_XS> {
  static_assert(sizeof(Block) == 74);
  static constexpr DecodeTraits kTraits{-43, 43, 16, 1, 31, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto q = [&](int i) {
      const unsigned group = b.q[i / 8];
      return signed_value(kIq2xsGrid[group & 511], i % 8, even_signs(group >> 9));
    };
    fill(out, f16_to_f32(b.d) / 8, q, [&](int j) { return 2 * nibble_at(b.scales, j) + 1; });
  }
};

template <>
struct Format<DType::IQ2_S> : CodebookFormat<BlockIQ2_S> {
  static_assert(sizeof(Block) == 82);
  static constexpr DecodeTraits kTraits{-43, 43, 16, 1, 31, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto q = [&](int i) {
      const int group = i / 8;
      const unsigned high = b.index_hi[group / 4] >> (group % 4 * 2) & 3U;
      return signed_value(kIq2sGrid[b.index[group] | high << 8], i % 8, b.signs[group]);
    };
    fill(out, f16_to_f32(b.d) / 8, q, [&](int j) { return 2 * nibble_at(b.scales, j) + 1; });
  }
};

template <>
struct Format<DType::IQ3_XXS> : CodebookFormat<BlockIQ3_XXS> {
  static_assert(sizeof(Block) == 98);
  static constexpr DecodeTraits kTraits{-62, 62, 32, 1, 31, false};
  static void decode(const Block& b, Decoded256& out) {
    const auto q = [&](int i) {
      const int group = i / 8;
      const std::uint64_t entry =
          join(kIq3xxsGrid[b.index[2 * group]], kIq3xxsGrid[b.index[2 * group + 1]]);
      return signed_value(entry, i % 8, packed_signs(b.signs_scale[i / 32], group % 4));
    };
    fill(out, f16_to_f32(b.d) / 4, q, [&](int j) { return 2 * (b.signs_scale[j / 2] >> 28) + 1; });
  }
};

template <>
struct Format<DType::IQ3_S> : CodebookFormat<BlockIQ3_S> {
  static_assert(sizeof(Block) == 110);
  static constexpr DecodeTraits kTraits{-15, 15, 32, 1, 31, false, true};
  static void decode(const Block& b, Decoded256& out) {
    const auto index = [&](int four) {
      return b.index[four] | (b.index_hi[four / 8] >> (four % 8) & 1U) << 8;
    };
    const auto q = [&](int i) {
      const int group = i / 8;
      const std::uint64_t entry =
          join(kIq3sGrid[index(2 * group)], kIq3sGrid[index(2 * group + 1)]);
      return signed_value(entry, i % 8, b.signs[group]);
    };
    fill(out, f16_to_f32(b.d), q, [&](int j) { return 2 * nibble_at(b.scales, j / 2) + 1; });
  }
};

template <>
struct Format<DType::IQ1_S> : CodebookFormat<BlockIQ1_S> {
  static_assert(sizeof(Block) == 50);
  static constexpr DecodeTraits kTraits{-9, 9, 32, 1, 15, false, true};
  static void decode(const Block& b, Decoded256& out) {
    const auto q = [&](int i) {
      const unsigned hi = b.hi[i / 32];
      const unsigned index = b.index[i / 8] | (hi >> (i / 8 % 4 * 3) & 7U) << 8;
      return shifted_value(kIq1Grid[index], i % 8, hi >> 15);
    };
    fill(out, f16_to_f32(b.d) / 8, q, [&](int j) { return 2 * (b.hi[j / 2] >> 12 & 7) + 1; });
  }
};

template <>
struct Format<DType::IQ1_M> : CodebookFormat<BlockIQ1_M> {
  static_assert(sizeof(Block) == 56);
  static constexpr DecodeTraits kTraits{-9, 9, 16, 1, 15, false, true};
  static void decode(const Block& b, Decoded256& out) {
    unsigned d = 0;
    for (int k = 0; k < 4; ++k) d |= (b.scales[k] >> 12 & 15U) << (4 * k);
    fill(
        out, f16_to_f32(static_cast<F16Bits>(d)) / 8, [&](int i) { return value_of_iq1m(b, i); },
        [&](int j) { return 2 * (b.scales[j / 4] >> (j % 4 * 3) & 7) + 1; });
  }
  static void set_scales(Block& b, float d, float /*m*/) {
    const F16Bits bits = f32_to_f16(d);
    for (unsigned i = 0; i < 4; ++i)
      b.scales[i] =
          static_cast<std::uint16_t>((b.scales[i] & 0x0FFF) | (bits >> (4 * i) & 0xF) << 12);
  }
};

template <DType type>
inline constexpr bool kHasCodebook = requires {
  Format<type>::kCodebook;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
