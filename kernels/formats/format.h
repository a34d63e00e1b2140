// The definition of a format: its block in a file, the ranges of its values, and the scalar decoder
// that defines them. Classes and numerics: kernels/README.md.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/formats/dtype.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"

namespace cria {

// Decoded weights: integers and a few floats, read by dequantization and by dot products. Formats
// and classes: kernels/README.md.

/// A group of n weights under one float scale: value i = d*q[i] + m.
template <int n>
struct DecodedGroup {
  alignas(64) std::int8_t q[n];
  float d;
  float m;  ///< 0 for types without an offset
};
using Decoded16 = DecodedGroup<16>;  ///< class Blocks16
using Decoded32 = DecodedGroup<32>;  ///< class Blocks32

/// 256 weights of a Super256 type: value i = d*scale[i/16]*q[i] - dmin*min[i/16].
struct Decoded256 {
  alignas(64) std::int8_t q[256];
  alignas(32) std::int16_t scale[16];
  alignas(32) std::int16_t min[16];  ///< 0 for types without mins
  float d;
  float dmin;  ///< 0 for types without mins
};

/// Decodes a row's weights 16·i … 16·i + 15, and so on: group i counts along the row.
using Decode16Fn = void (*)(const std::byte* row, std::size_t i, Decoded16& out);
using Decode32Fn = void (*)(const std::byte* row, std::size_t i, Decoded32& out);
using Decode256Fn = void (*)(const std::byte* row, std::size_t i, Decoded256& out);

/// The scalar decoders that define the formats; null for types of another class.
Decode16Fn scalar_decode16(DType type) noexcept;
Decode32Fn scalar_decode32(DType type) noexcept;
Decode256Fn scalar_decode256(DType type) noexcept;

/// Sets the scale d of a block and (if the type has one) its offset or minimum m, rounded to the
/// block's precision. The rest of the block is unchanged. For random weights.
void set_block_scales(DType type, std::byte* block, float d, float m) noexcept;
/// The same for a row whose header holds the scale of its blocks; nothing for other types.
void set_row_scale(DType type, std::byte* row, float d) noexcept;

/// Ranges of a type's decoded values, for kernels that are specialised at compile time.
struct DecodeTraits {
  int q_min, q_max;  ///< range of q
  int sub_block;     ///< values that share one integer scale: 16, 32, or 256 (scale is always 1)
  int scale_min, scale_max;  ///< range of scale
  bool has_min;              ///< Q2_K Q4_K Q5_K (min), Q4_1 Q5_1 (m)
  bool odd = false;          ///< every q and every scale is odd
};

}  // namespace cria

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

static_assert(std::endian::native == std::endian::little,
              "blocks are read as they lie in the file");

using F16Bits = std::uint16_t;           ///< IEEE binary16, see kernels/simd/round.h
inline constexpr float kF16Max = 65504;  ///< the largest finite

/// The block at p, whatever its alignment.
template <class Block>
Block load_block(const std::byte* p) {
  Block block;
  std::memcpy(&block, p, sizeof block);
  return block;
}

/// Headers of rows: what scale() gives is the d of all blocks; set() is its inverse.
struct F16Header {
  F16Bits d;
  [[nodiscard]] float scale() const { return f16_to_f32(d); }
  void set(float scale) { d = f32_to_f16(scale); }
};
/// The scale is that many percent of the number in the file.
template <int percent = 100>
struct F32Header {
  static constexpr float kFactor = static_cast<float>(percent) / 100;
  float d;
  [[nodiscard]] float scale() const { return percent == 100 ? d : d * kFactor; }
  void set(float scale) { d = percent == 100 ? scale : scale / kFactor; }
};

/// A format, specialised for every type of the list (dtype.h) in the file of its family:
/// - kClass: kind of product
/// - Block: as stored in a file: little-endian, no padding, any alignment
/// - kBlockValues: values per block
/// - kGroupValues: values per decoded group (integer types); a block is one group or several
/// - Header: optional: the start of a row, with the float scale of its blocks: F16Header or
///   F32Header
/// - kTraits: ranges of the decoded values (integer types)
/// - decode(block, w): fills a decoded group (integer types); decode(block, i, w) fills group i if
///   a block has several. Types with a header leave out d.
/// - dequantize(…): other types: DTypeInfo::dequantize
/// - set_scales(block, d, min): optional: for blocks without f16 fields named d, and m or dmin
/// - kReadOnly: optional: there is no encoder
template <DType type>
struct Format;

template <class F>
concept IsFormat = requires {
  typename F::Block;
  { F::kClass } -> std::convertible_to<DotClass>;
  { F::kBlockValues } -> std::convertible_to<std::uint32_t>;
};

/// True for types without an encoder: files hold them, but none are made.
template <DType type>
inline constexpr bool kDecodesOnly = requires {
  Format<type>::kReadOnly;
};

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
  if constexpr (kHeaderBytes<type> != 0) out.d = load_block<typename F::Header>(row).scale();
}

/// Value i of two-bit values of which 32 bytes hold four runs of 32, lowest bits first.
inline int two_bits(const std::uint8_t (&q)[64], int i) {
  return q[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

/// Nibble i of bytes, low nibble first.
inline int nibble_at(const std::uint8_t* bytes, int i) { return bytes[i / 2] >> (i % 2 * 4) & 15; }

/// Nibble i of eight in four bytes: first all low ones, then all high ones.
inline int halved_nibble(const std::uint8_t (&bytes)[4], int i) {
  return bytes[i % 4] >> (i / 4 * 4) & 15;
}

/// Value i of 32 nibbles: first all low ones, then all high ones.
constexpr int nibble_of_32(const std::uint8_t* lo, int i) {
  return i < 16 ? lo[i] & 15 : lo[i - 16] >> 4;
}
/// The same of 16.
constexpr int nibble_of_16(const std::uint8_t* lo, int i) {
  return i < 8 ? lo[i] & 15 : lo[i - 8] >> 4;
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
