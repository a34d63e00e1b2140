// All formats. Types whose blocks are single numbers stand here, the others in a file per family.
#pragma once

#include "kernels/formats/blocks32.h"  // IWYU pragma: export
#include "kernels/formats/format.h"
#include "kernels/formats/ik.h"           // IWYU pragma: export
#include "kernels/formats/ik_row.h"       // IWYU pragma: export
#include "kernels/formats/interleaved.h"  // IWYU pragma: export
#include "kernels/formats/iq.h"           // IWYU pragma: export
#include "kernels/formats/iq4.h"          // IWYU pragma: export
#include "kernels/formats/k.h"            // IWYU pragma: export
#include "kernels/formats/trellis.h"      // IWYU pragma: export
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Numbers of type Stored, each a value through to_float.
template <class Stored, float (*to_float)(Stored), DotClass dot = DotClass::None>
struct NumberFormat {
  using Block = Stored;
  static constexpr DotClass kClass = dot;
  static constexpr std::uint32_t kBlockValues = 1;
  static void dequantize(const std::byte* values, float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      out[i] = to_float(load_block<Stored>(values + i * sizeof(Stored)));
  }
};

template <class Number>
float number_to_float(Number x) {
  return static_cast<float>(x);
}

/// Same result as f16_to_f32 without a branch, so that loops vectorize. Read as the upper bits of a
/// float, a half is too small by 2^112, subnormals included.
inline float f16_by_scaling(F16Bits half) {
  const std::uint32_t rest = half & 0x7FFFU;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112F);
  const std::uint32_t special = rest >= 0x7C00U ? 0x7F800000U : 0U;
  const std::uint32_t quiet = rest > 0x7C00U ? 0x00400000U : 0U;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  return std::bit_cast<float>(scaled | special | quiet | sign);
}

template <>
struct Format<DType::F32> : NumberFormat<float, number_to_float<float>, DotClass::Float> {};
template <>
struct Format<DType::F16> : NumberFormat<F16Bits, f16_by_scaling, DotClass::Float> {};
template <>
struct Format<DType::BF16> : NumberFormat<std::uint16_t, bf16_to_f32, DotClass::FloatPairs> {};
template <>
struct Format<DType::F64> : NumberFormat<double, number_to_float<double>> {};
template <>
struct Format<DType::I8> : NumberFormat<std::int8_t, number_to_float<std::int8_t>> {};
template <>
struct Format<DType::I16> : NumberFormat<std::int16_t, number_to_float<std::int16_t>> {};
template <>
struct Format<DType::I32> : NumberFormat<std::int32_t, number_to_float<std::int32_t>> {};
template <>
struct Format<DType::I64> : NumberFormat<std::int64_t, number_to_float<std::int64_t>> {};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
