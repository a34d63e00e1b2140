// What a block of weights says, in integers and a few floats: the one form that dequantization and
// the scalar product read. Formats and classes: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace cria {

/// A group of n weights under one float scale: value i = d*q[i] + m.
template <int n>
struct DecodedGroup {
  alignas(64) std::int8_t q[n];
  float d;
  float m;  ///< 0 for types without an offset
};
using Decoded16 = DecodedGroup<16>;  ///< of a Blocks16 type
using Decoded32 = DecodedGroup<32>;  ///< of a Blocks32 type

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

/// The scalar decoders that define the formats; null where the type is not of that class.
Decode16Fn scalar_decode16(DType type) noexcept;
Decode32Fn scalar_decode32(DType type) noexcept;
Decode256Fn scalar_decode256(DType type) noexcept;

/// Gives a block of a type with float scales the scale d and, where the type has one, the offset or
/// float minimum m, each rounded to what the block can hold; nothing else of it changes. For
/// weights made at random.
void set_block_scales(DType type, std::byte* block, float d, float m) noexcept;
/// The same for a row whose header holds the scale of its blocks; nothing for other types.
void set_row_scale(DType type, std::byte* row, float d) noexcept;

/// What is known of a type's decoded values before any block is read:
/// lets kernels be specialised at compile time.
struct DecodeTraits {
  int q_min, q_max;  ///< range of q
  int sub_block;     ///< values that share one integer scale: 16, 32, or 256 (scale is always 1)
  int scale_min, scale_max;  ///< range of scale
  bool has_min;              ///< Q2_K Q4_K Q5_K (min), Q4_1 Q5_1 (m)
  bool odd = false;          ///< every q and every scale is odd
};

}  // namespace cria
