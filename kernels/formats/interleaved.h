// The interleaved types of ik_llama.cpp (_R4, _R8): rows in units of four or eight, whose headers
// come first; then, for each block of columns, one block with the codes of all rows of the unit.
// They hold the very values of plain types, into whose rows deinterleave() puts them back. So it
// does with rows of IQ1_BN, a unit each, which IQ2_BN has less tightly packed.
#pragma once

#include "kernels/formats/blocks32.h"
#include "kernels/formats/ik.h"
#include "kernels/formats/ik_row.h"
#include "kernels/formats/iq.h"
#include "kernels/formats/iq4.h"
#include "kernels/formats/k.h"
#include "kernels/simd/namespace.h"

namespace cria {

/// DTypeInfo::deinterleave of a type.
template <DType type>
void deinterleave(const std::byte* unit, std::size_t cols, std::byte* rows);

/// A row is a unit here: n is the number of its values.
template <DType type>
void dequantize_unit(const std::byte* unit, float* out, std::size_t n);

inline namespace CRIA_ISA_NAMESPACE {

// Within a block of 256 columns: k is the row, b a sub-block of 32 columns, m a quad of its columns
// and i a column of the quad, h = m/4 a half of the sub-block. Scales of halves lie at z = 8b + 4h
// + k.
#pragma pack(push, 1)
struct BlockIQ2_K_R4 {
  F16Bits d[4];
  std::uint8_t extra[8];    // bit b of byte k + 4h: the shift
  std::uint8_t scales[32];  // low nibbles: z < 32, then high nibbles
  std::uint8_t q[256];      // bits 2(m % 4)… of byte 32b + 16h + 4k + i
};
struct BlockIQ3_K_R4 {
  F16Bits d[4];
  std::uint8_t extra[8];
  std::uint8_t signs[8];  // bit z/8 of byte z % 8
  std::uint8_t scales[32];
  std::uint8_t q[256];
  std::uint8_t hi[128];  // byte 16b + 4k + i has a bit for each m
  static constexpr int bit_of(int m) { return m; }
};
struct BlockIQ4_K_R4 {
  F16Bits d[4];
  std::uint8_t extra[8];
  std::uint8_t scales_hi[16];  // bits 2(z/16)… of byte z % 16
  std::uint8_t scales[32];
  std::uint8_t q[512];  // nibble m/2 % 2 of byte 64b + 16(2(m % 2) + h) + 4k + i
};
struct BlockIQ5_K_R4 {
  F16Bits d[4];
  std::uint8_t extra[8], scales_hi[16], scales[32], q[512], hi[128];
  static constexpr int bit_of(int m) { return m / 2 + 4 * (m % 2); }
};
struct BlockIQ4_KS_R4 {
  using Header = F32Header<>;
  std::uint8_t scales[32];  // byte 4b + k: as in IQ4_KS
  std::uint8_t q[512];
};
struct BlockIQ5_KS_R4 {
  using Header = F32Header<>;
  std::uint8_t scales[32], q[512], hi[128];
  static constexpr int bit_of(int m) { return BlockIQ5_K_R4::bit_of(m); }
};
struct BlockQ4_K_R4 {
  F16Bits d[4], dmin[4];
  // With y = 4b + k: bits 4(y/16)… of byte y % 16: the top two bits of scale y, then of min y.
  std::uint8_t tops[16];
  std::uint8_t scales[32];  // byte y: low nibbles of scale and min
  std::uint8_t q[512];
};
struct BlockQ5_K_R4 {
  F16Bits d[4], dmin[4];
  std::uint8_t tops[16], scales[32], hi[128], q[512];
  static constexpr int bit_of(int m) { return m / 2 % 2 + 2 * (m % 2) + 4 * (m / 4); }
};
struct BlockQ6_K_R4 {
  F16Bits d[4];
  std::int8_t scales[64];  // by z
  std::uint8_t hi[256];    // bits 4(m % 2) + 2(m/2 % 2)… of byte 32b + 16h + 4k + i
  std::uint8_t q[512];
};
struct BlockQ8_0_R8 {
  F16Bits d[8];
  std::int8_t q[256];  // column c of row k: 128(c/16) + 32(c/4 % 4) + 4k + c % 4
};
struct BlockIQ1_S_R4 {
  using Header = F16Header;
  struct {
    std::uint8_t index[16];  // byte 4g + k: as in IQ1_S for group g
    std::uint16_t hi[4];     // by row: as in IQ1_S
  } sub[8];
};
struct BlockIQ1_M_R4 {
  using Header = F16Header;
  struct {
    std::uint8_t index[16];
    std::uint8_t hi[8];      // byte 4h + k: nibbles as in IQ1_M for groups 2h and 2h + 1
    std::uint8_t scales[4];  // by row: nibbles for the halves
  } sub[8];
};
// Runs of sixteen values in base 3. Bytes are fractions of 256, whose last digit is the top one.
// Byte 3r + i has digits 5i … of run r of sixteen values; the last byte has the last value of each.
struct BlockIQ1_BN {
  using Header = F16Header;
  std::uint8_t digits[13];
};
#pragma pack(pop)

/// Has the header of a block, if there is one.
template <class Together>
struct HeaderOf {};
template <class Together>
requires requires { typename Together::Header; }
struct HeaderOf<Together> {
  using Header = typename Together::Header;
};

/// An interleaved type. kClass: products cannot read these weights.
template <DType type, DType plain, class Together_, std::uint32_t rows>
struct InterleavedFormat {
  using Together = Together_;  ///< the block of all rows
  struct Block {
    std::byte bytes[sizeof(Together) / rows];
  };
  static_assert(sizeof(Together) == rows * sizeof(Block));
  static constexpr DType kPlain = plain;
  static constexpr std::uint32_t kRows = rows;
  static constexpr DotClass kClass = DotClass::None;
  static constexpr std::uint32_t kBlockValues = Format<plain>::kBlockValues;
  static void dequantize(const std::byte* unit, float* out, std::size_t n) {
    dequantize_unit<type>(unit, out, n);
  }
};

#define CRIA_FORMAT(name, plain, rows)                                                          \
  template <>                                                                                   \
  struct Format<DType::name> : InterleavedFormat<DType::name, DType::plain, Block##name, rows>, \
                               HeaderOf<Block##name> {};
CRIA_INTERLEAVED_TYPES(CRIA_FORMAT)
#undef CRIA_FORMAT

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
