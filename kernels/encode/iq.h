// Encoders of the IQ types. Blocks: kernels/formats/iq.h; search: kernels/encode/iq_search.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/encode/iq_search.h"
#include "kernels/encode/lanes.h"
#include "kernels/formats/iq.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// An IqFormat defines:
// - Block, book(): the block and the codebook
// - kPruned: true if the codebook is so large that pruning entries pays
// - kGrid: the entries, in bytes
// - kDims, kSubGroups: values per group, groups per sub-block
// - kScales, kFactor: a sub-block's scale is kFactor * d * (2s + 1), s < kScales
// - kTypical: root mean square of a codebook's values at a good fit
// - kMaxSteps, kStepRatio, kTried: block scales to try: the largest sub-block's scale divided by
//   kMaxSteps, then by kStepRatio times the previous divisor
// - pack(codes, block)

struct Iq16Scales {
  static constexpr std::size_t kScales = 16, kTried = 16;
  static constexpr float kMaxSteps = 35, kStepRatio = 0.916F;
};
struct Iq8Scales {
  static constexpr std::size_t kScales = 8, kTried = 16;
  static constexpr float kMaxSteps = 17, kStepRatio = 0.916F;
};

/// Four times seven bits of sign and a scale.
template <class Codes>
std::uint32_t pack_signs_scale(const Codes& codes, std::size_t sub) {
  constexpr std::size_t kPerEight = Codes::kGroups / 32;
  std::uint32_t bits = static_cast<std::uint32_t>(codes.scale[sub]) << 28;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint8_t* const n = codes.negative + (4 * sub + i) * kPerEight;
    const std::uint32_t eight =
        kPerEight == 1 ? n[0] : n[0] | static_cast<std::uint32_t>(n[1]) << 4;
    bits |= (eight & 0x7FU) << (7 * i);
  }
  return bits;
}
inline void put_nibble(std::uint8_t* bytes, std::size_t i, unsigned nibble) {
  bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] | nibble << (i % 2 * 4));
}

struct Iq2xxsFormat : Iq16Scales {
  using Block = BlockIQ2_XXS;
  static constexpr bool kPruned = false;
  static const EncoderBook& book() { return iq2_xxs_book(); }
  static constexpr const auto& kGrid = kIq2xxsGrid;
  static constexpr std::size_t kDims = 8, kSubGroups = 4;
  static constexpr float kFactor = 0.125F, kTypical = 21;
  static constexpr IqChoice kChoice = IqChoice::EvenSigns;
  static void pack(const IqCodes<Iq2xxsFormat>& codes, Block& b) {
    b.d = codes.d;
    for (std::size_t g = 0; g < 32; ++g)
      b.sub[g / 4].index[g % 4] = static_cast<std::uint8_t>(codes.entry[g]);
    for (std::size_t j = 0; j < 8; ++j) b.sub[j].signs_scale = pack_signs_scale(codes, j);
  }
};

struct Iq2xsFormat : Iq16Scales {
  using Block = BlockIQ2_XS;
  static constexpr bool kPruned = false;
  static const EncoderBook& book() { return iq2_xs_book(); }
  static constexpr const auto& kGrid = kIq2xsGrid;
  static constexpr std::size_t kDims = 8, kSubGroups = 2;
  static constexpr float kFactor = 0.125F, kTypical = 21;
  static constexpr IqChoice kChoice = IqChoice::EvenSigns;
  static void pack(const IqCodes<Iq2xsFormat>& codes, Block& b) {
    b.d = codes.d;
    for (std::size_t g = 0; g < 32; ++g)
      b.q[g] = static_cast<std::uint16_t>(codes.entry[g] | (codes.negative[g] & 0x7FU) << 9);
    for (std::size_t j = 0; j < 16; ++j) put_nibble(b.scales, j, codes.scale[j]);
  }
};

struct Iq2sFormat : Iq16Scales {
  using Block = BlockIQ2_S;
  static constexpr bool kPruned = true;
  static const EncoderBook& book() { return iq2_s_book(); }
  static constexpr const auto& kGrid = kIq2sGrid;
  static constexpr std::size_t kDims = 8, kSubGroups = 2;
  static constexpr float kFactor = 0.125F, kTypical = 21;
  static constexpr IqChoice kChoice = IqChoice::Signs;
  static void pack(const IqCodes<Iq2sFormat>& codes, Block& b) {
    b.d = codes.d;
    for (std::size_t g = 0; g < 32; ++g) {
      b.index[g] = static_cast<std::uint8_t>(codes.entry[g]);
      b.signs[g] = codes.negative[g];
      b.index_hi[g / 4] =
          static_cast<std::uint8_t>(b.index_hi[g / 4] | (codes.entry[g] >> 8U) << (g % 4 * 2));
    }
    for (std::size_t j = 0; j < 16; ++j) put_nibble(b.scales, j, codes.scale[j]);
  }
};

struct Iq3xxsFormat : Iq16Scales {
  using Block = BlockIQ3_XXS;
  static constexpr bool kPruned = false;
  static const EncoderBook& book() { return iq3_xxs_book(); }
  static constexpr const auto& kGrid = kIq3xxsGrid;
  static constexpr std::size_t kDims = 4, kSubGroups = 8;
  static constexpr float kFactor = 0.25F, kTypical = 25;
  static constexpr IqChoice kChoice = IqChoice::EvenPairSigns;
  static void pack(const IqCodes<Iq3xxsFormat>& codes, Block& b) {
    b.d = codes.d;
    for (std::size_t g = 0; g < 64; ++g) b.index[g] = static_cast<std::uint8_t>(codes.entry[g]);
    for (std::size_t j = 0; j < 8; ++j) b.signs_scale[j] = pack_signs_scale(codes, j);
  }
};

struct Iq3sFormat : Iq16Scales {
  using Block = BlockIQ3_S;
  static constexpr bool kPruned = false;
  static const EncoderBook& book() { return iq3_s_book(); }
  static constexpr const auto& kGrid = kIq3sGrid;
  static constexpr std::size_t kDims = 4, kSubGroups = 8;
  static constexpr float kFactor = 1, kTypical = 6;
  static constexpr IqChoice kChoice = IqChoice::Signs;
  static void pack(const IqCodes<Iq3sFormat>& codes, Block& b) {
    b.d = codes.d;
    for (std::size_t g = 0; g < 64; ++g) {
      b.index[g] = static_cast<std::uint8_t>(codes.entry[g]);
      b.index_hi[g / 8] =
          static_cast<std::uint8_t>(b.index_hi[g / 8] | (codes.entry[g] >> 8U) << (g % 8));
      put_nibble(b.signs, g, codes.negative[g]);
    }
    for (std::size_t j = 0; j < 8; ++j) put_nibble(b.scales, j, codes.scale[j]);
  }
};

struct Iq1sFormat : Iq8Scales {
  using Block = BlockIQ1_S;
  static constexpr bool kPruned = true;
  static const EncoderBook& book() { return iq1_book(); }
  static constexpr const auto& kGrid = kIq1Grid;
  static constexpr std::size_t kDims = 8, kSubGroups = 4;
  static constexpr float kFactor = 0.125F, kTypical = 6;
  static constexpr IqChoice kChoice = IqChoice::BlockShift;
  static void pack(const IqCodes<Iq1sFormat>& codes, Block& b) {
    b.d = codes.d;
    for (std::size_t g = 0; g < 32; ++g) {
      b.index[g] = static_cast<std::uint8_t>(codes.entry[g]);
      b.hi[g / 4] = static_cast<std::uint16_t>(b.hi[g / 4] | (codes.entry[g] >> 8U) << (g % 4 * 3));
    }
    for (std::size_t j = 0; j < 8; ++j)
      b.hi[j] = static_cast<std::uint16_t>(b.hi[j] | codes.scale[j] << 12U |
                                           (codes.minus[4 * j] ? 0x8000U : 0U));
  }
};

struct Iq1mFormat : Iq8Scales {
  using Block = BlockIQ1_M;
  static constexpr bool kPruned = true;
  static const EncoderBook& book() { return iq1_book(); }
  static constexpr const auto& kGrid = kIq1Grid;
  static constexpr std::size_t kDims = 8, kSubGroups = 2;
  static constexpr float kFactor = 0.125F, kTypical = 6;
  static constexpr IqChoice kChoice = IqChoice::GroupShift;
  static void pack(const IqCodes<Iq1mFormat>& codes, Block& b) {
    for (std::size_t g = 0; g < 32; ++g) {
      b.index[g] = static_cast<std::uint8_t>(codes.entry[g]);
      put_nibble(b.hi, g, codes.entry[g] >> 8U | (codes.minus[g] ? 8U : 0U));
    }
    for (std::size_t k = 0; k < 4; ++k) {
      unsigned bits = (codes.d >> (4 * k) & 15U) << 12;
      for (std::size_t j = 0; j < 4; ++j)
        bits |= static_cast<unsigned>(codes.scale[4 * k + j]) << (3 * j);
      b.scales[k] = static_cast<std::uint16_t>(bits);
    }
  }
};

/// An EncodeFn.
template <class Isa, class IqFormat>
void encode_iq(const float* x, const float* importance, std::size_t n_values, std::byte* blocks) {
  IqSearch<Isa, IqFormat> search;
  IqCodes<IqFormat> codes;
  for (std::size_t i = 0; i < n_values; i += 256) {
    search.encode(x + i, importance == nullptr ? nullptr : importance + i, codes);
    typename IqFormat::Block block = {};
    IqFormat::pack(codes, block);
    std::memcpy(blocks + i / 256 * sizeof block, &block, sizeof block);
  }
}

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ3_S> = encode_iq<Isa, Iq3sFormat>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ3_XXS> = encode_iq<Isa, Iq3xxsFormat>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ2_S> = encode_iq<Isa, Iq2sFormat>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ2_XS> = encode_iq<Isa, Iq2xsFormat>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ2_XXS> = encode_iq<Isa, Iq2xxsFormat>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ1_S> = encode_iq<Isa, Iq1sFormat>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ1_M> = encode_iq<Isa, Iq1mFormat>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
