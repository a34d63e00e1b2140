// What every format says of itself, in one place: how a block lies in a file, what is known of its
// values before any is read, and the scalar decoder that defines them. Classes and numerics:
// kernels/README.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/formats/decode.h"
#include "kernels/formats/dtype.h"
#include "kernels/formats/f16.h"

namespace cria {

static_assert(std::endian::native == std::endian::little,
              "blocks are read as they lie in the file");

using F16Bits = std::uint16_t;           ///< IEEE binary16, see kernels/formats/f16.h
inline constexpr float kF16Max = 65504;  ///< the largest finite

/// The block at p, whatever its alignment.
template <class Block>
Block load_block(const std::byte* p) {
  Block block;
  std::memcpy(&block, p, sizeof block);
  return block;
}

/// A format, specialised for every type of the list (dtype.h) in the file of its family:
///
///   kClass            how products read it
///   Block             as it lies in a file: little-endian, no padding, any alignment
///   kBlockValues      values of a block
///   kGroupValues      of integers in blocks: values of a Decoded16, 32 or 256; a block is one
///   group or several Header            optional: what a row begins with, the float scale of its
///   blocks kTraits           of integers in blocks: what is known of the decoded values
///   decode(block, w)  of integers in blocks: fills a decoded group; decode(block, i, w) with group
///   i where a
///                     block has several. Where rows have a header, without d.
///   dequantize(…)     of all other types: DTypeInfo::dequantize
///   set_scales(block, d, min)   optional: where the block has no f16 fields d, and m or dmin, of
///   these names
///
/// decode() is for code of the baseline only: no file of kernels/isa/ with flags of its own may
/// call it, for the linker keeps any one copy.
template <DType type>
struct Format;

/// Bytes of the header that a row of a type begins with, or 0.
template <DType type>
inline constexpr std::uint32_t kHeaderBytes = [] {
  std::uint32_t bytes = 0;
  if constexpr (requires { typename Format<type>::Header; })
    bytes = sizeof(typename Format<type>::Header);
  return bytes;
}();

/// Value i of a block is meant in the order of the row. Base of the formats of classes Blocks16 and
/// Blocks32.
template <class Block_, DotClass dot, std::uint32_t group_values, std::uint32_t block_values>
struct GroupsFormat {
  using Block = Block_;
  static constexpr DotClass kClass = dot;
  static constexpr std::uint32_t kGroupValues = group_values, kBlockValues = block_values;

 protected:
  /// Fills a decoded group: value_of(i) is q[i].
  template <class ValueOf>
  static void fill(DecodedGroup<group_values>& out, float d, float m, ValueOf value_of) {
    for (int i = 0; i < static_cast<int>(group_values); ++i)
      out.q[i] = static_cast<std::int8_t>(value_of(i));
    out.d = d;
    out.m = m;
  }
};
template <class Block_, std::uint32_t block_values = 32>
using Blocks32Format = GroupsFormat<Block_, DotClass::Blocks32, 32, block_values>;
template <class Block_, std::uint32_t block_values>
using Blocks16Format = GroupsFormat<Block_, DotClass::Blocks16, 16, block_values>;

/// Base of the formats of class Super256.
template <class Block_>
struct Super256Format {
  using Block = Block_;
  static constexpr DotClass kClass = DotClass::Super256;
  static constexpr std::uint32_t kBlockValues = 256, kGroupValues = 256;

 protected:
  /// Fills a decoded block without mins: q[i] = q_of(i), scale[j] = scale_of(j) for each sub-block
  /// of 16.
  template <class QOf, class ScaleOf>
  static void fill(Decoded256& out, float d, QOf q_of, ScaleOf scale_of) {
    for (int i = 0; i < 256; ++i) out.q[i] = static_cast<std::int8_t>(q_of(i));
    for (int j = 0; j < 16; ++j) {
      out.scale[j] = static_cast<std::int16_t>(scale_of(j));
      out.min[j] = 0;
    }
    out.d = d;
    out.dmin = 0;
  }
};

/// Group i of a row: a Decoded16, 32 or 256.
template <DType type, class Decoded>
void decode_group(const std::byte* row, std::size_t i, Decoded& out) {
  using F = Format<type>;
  constexpr std::size_t kGroups = F::kBlockValues / F::kGroupValues;
  const auto block = load_block<typename F::Block>(row + kHeaderBytes<type> +
                                                   i / kGroups * sizeof(typename F::Block));
  if constexpr (kGroups == 1)
    F::decode(block, out);
  else
    F::decode(block, static_cast<int>(i % kGroups), out);
  if constexpr (kHeaderBytes<type> != 0) out.d = load_block<typename F::Header>(row);
}

/// Value i of two-bit values of which 32 bytes hold four runs of 32, lowest bits first.
inline int two_bits(const std::uint8_t (&q)[64], int i) {
  return q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

/// Nibble i of bytes, low nibble first.
inline int nibble_at(const std::uint8_t* bytes, int i) { return bytes[i / 2] >> (i % 2 * 4) & 15; }

/// Value i of 32 nibbles: first all low ones, then all high ones.
constexpr int nibble_of_32(const std::uint8_t* lo, int i) {
  return i < 16 ? lo[i] & 15 : lo[i - 16] >> 4;
}
/// The same of 16.
constexpr int nibble_of_16(const std::uint8_t* lo, int i) {
  return i < 8 ? lo[i] & 15 : lo[i - 8] >> 4;
}

}  // namespace cria
