// From blocks to float32: generic from the decoders, plain conversions otherwise. Private to the dtype table.
#pragma once

#include <cstring>

#include "kernels/blocks.h"
#include "kernels/decoders.h"
#include "kernels/f16.h"

namespace cria {

// Products are exact (kernels/README.md), so only the offset can round. It is left out, not added as zero,
// where a type has none: -0 would become +0.

template <DType type, class Block, Decode32Fn decode>
void dequantize32(const std::byte* blocks, float* out, std::size_t n) {
  Decoded32 w;
  for (std::size_t b = 0; b < n / 32; ++b) {
    decode(blocks + b * sizeof(Block), w);
    for (int i = 0; i < 32; ++i) {
      float value = w.d * w.q[i];
      if constexpr (decode_traits(type).has_min) value += w.m;
      *out++ = value;
    }
  }
}

template <DType type, class Block, Decode256Fn decode>
void dequantize256(const std::byte* blocks, float* out, std::size_t n) {
  Decoded256 w;
  for (std::size_t b = 0; b < n / 256; ++b) {
    decode(blocks + b * sizeof(Block), w);
    for (int i = 0; i < 256; ++i) {
      const int j = i / 16;
      float value = w.d * w.scale[j] * w.q[i];
      if constexpr (decode_traits(type).has_min) value -= w.dmin * w.min[j];
      *out++ = value;
    }
  }
}

/// Q8_1 and Q8_K: a scale and int8 values.
template <class Block>
void dequantize_int8(const std::byte* blocks, float* out, std::size_t n) {
  constexpr std::size_t kValues = sizeof(Block::q);
  for (std::size_t b = 0; b < n / kValues; ++b) {
    const auto block = load_block<Block>(blocks + b * sizeof(Block));
    float d;
    if constexpr (sizeof block.d == sizeof(F16Bits))
      d = f16_to_f32(block.d);
    else
      d = block.d;
    for (const std::int8_t q : block.q) *out++ = d * q;
  }
}

/// n values of type Stored, each through to_float.
template <class Stored, float (*to_float)(Stored)>
void convert(const std::byte* values, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = to_float(load_block<Stored>(values + i * sizeof(Stored)));
}

/// The same bits as f16_to_f32 without a branch, so that a loop of it vectorizes: read as the upper bits of a
/// float, a half is too small by 2^112, subnormals included.
inline float f16_by_scaling(std::uint16_t half) {
  const std::uint32_t rest = half & 0x7FFFU;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112F);
  const std::uint32_t special = rest >= 0x7C00U ? 0x7F800000U : 0U;
  const std::uint32_t quiet = rest > 0x7C00U ? 0x00400000U : 0U;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  return std::bit_cast<float>(scaled | special | quiet | sign);
}

template <class Number>
float number_to_float(Number x) {
  return static_cast<float>(x);
}

}  // namespace cria
