// What a block of weights says, in integers and a few floats: the one form that dequantization, the scalar
// product, and the packing of a GEMM panel read. Formats and classes: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace cria {

/// 32 weights of a Blocks32 type: value i = d*q[i] + m.
struct Decoded32 {
  alignas(64) std::int8_t q[32];
  float d;
  float m;  ///< 0 for types without an offset
};

/// 256 weights of a Super256 type: value i = d*scale[i/16]*q[i] - dmin*min[i/16].
struct Decoded256 {
  alignas(64) std::int8_t q[256];
  alignas(32) std::int16_t scale[16];
  alignas(32) std::int16_t min[16];  ///< 0 for types without mins
  float d;
  float dmin;  ///< 0 for types without mins
};

using Decode32Fn = void (*)(const std::byte* block, Decoded32& out);
using Decode256Fn = void (*)(const std::byte* block, Decoded256& out);

/// The scalar decoders that define the formats; null where the type is not of that class.
Decode32Fn scalar_decode32(DType type) noexcept;
Decode256Fn scalar_decode256(DType type) noexcept;

/// What is known of a type's decoded values before any block is read: lets kernels be specialised at compile
/// time.
struct DecodeTraits {
  int q_min, q_max;          ///< range of q
  int sub_block;             ///< values that share one integer scale: 16, 32, or 256 (scale is always 1)
  int scale_min, scale_max;  ///< range of scale
  bool has_min;              ///< Q2_K Q4_K Q5_K (min), Q4_1 Q5_1 (m)
  bool odd = false;          ///< every q and every scale is odd
};
constexpr DecodeTraits decode_traits(DType type) {
  switch (type) {  // the only other place than the table that lists types: compile-time facts for templates
    case DType::Q4_0:
      return {-8, 7, 32, 1, 1, false};
    case DType::Q4_1:
      return {0, 15, 32, 1, 1, true};
    case DType::Q5_0:
      return {-16, 15, 32, 1, 1, false};
    case DType::Q5_1:
      return {0, 31, 32, 1, 1, true};
    case DType::Q8_0:
      return {-128, 127, 32, 1, 1, false};
    case DType::IQ4_NL:
      return {-127, 113, 32, 1, 1, false};
    case DType::Q2_K:
      return {0, 3, 16, 0, 15, true};
    case DType::Q3_K:
      return {-4, 3, 16, -32, 31, false};
    case DType::Q4_K:
      return {0, 15, 32, 0, 63, true};
    case DType::Q5_K:
      return {0, 31, 32, 0, 63, true};
    case DType::Q6_K:
      return {-32, 31, 16, -128, 127, false};
    case DType::IQ4_XS:
      return {-127, 113, 32, -32, 31, false};
    case DType::IQ3_S:
      return {-15, 15, 32, 1, 31, false, true};
    case DType::IQ3_XXS:
      return {-62, 62, 32, 1, 31, false};
    case DType::IQ2_S:
    case DType::IQ2_XS:
      return {-43, 43, 16, 1, 31, false};
    case DType::IQ2_XXS:
      return {-43, 43, 32, 1, 31, false};
    case DType::IQ1_S:
      return {-9, 9, 32, 1, 15, false, true};
    case DType::IQ1_M:
      return {-9, 9, 16, 1, 15, false, true};
    case DType::TQ1_0:
      return {-1, 1, 256, 1, 1, false};
    case DType::TQ2_0:
      return {-1, 2, 256, 1, 1, false};
    default:
      return {0, 0, 0, 0, 0, false};
  }
}

}  // namespace cria
