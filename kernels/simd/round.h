// Rounding to f16 and bfloat16 (in integers, for any machine; kernels convert by their own
// instructions, simd/float_convert.h) and to whole units.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// IEEE binary16 and bfloat16 in integers: for code that runs on any machine. Kernels convert with
// their own instructions (float_convert.h). Always inlined: code for one instruction set must not
// call another's copy.

/// Exact; NaN keeps its payload and becomes quiet.
constexpr float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t rest = half & 0x7FFFU;
  if (rest >= 0x7C00U) {  // infinity, NaN
    const std::uint32_t quiet = rest > 0x7C00U ? 0x00400000U : 0;
    return std::bit_cast<float>(sign | 0x7F800000U | (rest << 13) | quiet);
  }
  if (rest >= 0x0400U) return std::bit_cast<float>(sign | ((rest << 13) + (112U << 23)));
  const float value = static_cast<float>(rest) * 0x1p-24F;  // zero, subnormal
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

/// To the nearest, ties to even; beyond 65519.99 to infinity; NaN to a quiet NaN.
constexpr std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000U, rest = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (rest > 0x7F800000U) {
    half = 0x7E00U | (rest >> 13 & 0x03FFU);
  } else if (rest >= 0x47800000U) {  // 2^16 and more
    half = 0x7C00U;
  } else if (rest >= 0x38800000U) {  // normal: a carry of the rounding may run into the exponent,
                                     // as it should
    half = (rest - (112U << 23) + 0x0FFFU + (rest >> 13 & 1U)) >> 13;
  } else {  // subnormal: adding 0.5 leaves the value, rounded to a multiple of 2^-24, in the low
            // bits
    const float shifted = std::bit_cast<float>(rest) + 0.5F;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  }
  return static_cast<std::uint16_t>(sign | half);
}

/// Exact: the upper half of a float.
constexpr float bf16_to_f32(std::uint16_t upper) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(upper) << 16);
}

/// To the nearest, ties to even; NaN to a quiet NaN.
constexpr std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x0040U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

/// Pieces of `unit` that n fills, the last in part.
constexpr std::size_t divide_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }
/// The least multiple of `unit` that is not below n.
constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
  return divide_up(n, unit) * unit;
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
