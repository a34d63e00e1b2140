// All encoders. Floats and Q1_0, which need no search, are defined here.
#pragma once

#include <limits>

#include "kernels/encode/affine.h"
#include "kernels/encode/fp4.h"
#include "kernels/encode/ik.h"
#include "kernels/encode/iq.h"
#include "kernels/encode/lanes.h"
#include "kernels/encode/q8_0.h"
#include "kernels/encode/row_scale.h"
#include "kernels/encode/symmetric.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Floats: conversions. No importance can improve on rounding.

template <class Isa>
void encode_f32(const float* x, const float* /*importance*/, std::size_t n, std::byte* out) {
  __builtin_memcpy(out, x, n * sizeof(float));
}

/// Calls convert(16 numbers, where to store them) over a row; what is beyond its end is thrown
/// away.
template <class Isa, class F>
[[gnu::always_inline]] inline void convert_row(const float* x, std::size_t n, std::byte* out,
                                               F convert) {
  using V = F32x16<Isa>;
  std::size_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) convert(V::load(x + i), out + 2 * i);
  if (i == n) return;
  std::byte tail[2 * kFloatLanes];
  convert(V::load_partial(x + i, n - i), tail);
  __builtin_memcpy(out + 2 * i, tail, 2 * (n - i));
}

/// Numbers too large for f16 become its largest, not infinite; infinity and NaN stay what they are.
template <class Isa>
void encode_f16(const float* x, const float* /*importance*/, std::size_t n, std::byte* out) {
  using V = F32x16<Isa>;
  convert_row<Isa>(x, n, out, [](const V& v, std::byte* p) {
    const V largest = V::broadcast(kF16Max), limited = max(min(v, largest), V::broadcast(-kF16Max));
    select_less(abs(v), V::broadcast(std::numeric_limits<float>::infinity()), limited, v)
        .store_f16(p);
  });
}

template <class Isa>
void encode_bf16(const float* x, const float* /*importance*/, std::size_t n, std::byte* out) {
  convert_row<Isa>(x, n, out, [](const F32x16<Isa>& v, std::byte* p) { v.store_bf16(p); });
}

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::F32> = encode_f32<Isa>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::F16> = encode_f16<Isa>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::BF16> = encode_bf16<Isa>;

// Q1_0: 128 weights ±d. The signs are the weights' own, so the best d is the mean of their
// magnitudes.

template <class Isa, bool weighted>
void encode_q1_0(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  using V = F32x16<Isa>;
  const BlockLanes<Isa, 128, weighted> block(x, importance, n_blocks);
  V sum_wx = V::broadcast(0), sum_w = sum_wx;
  for (std::size_t i = 0; i < 128; ++i) {
    sum_wx = sum_wx + block.weigh(i, abs(block.x(i)));
    sum_w = sum_w + block.w(i);
  }
  std::byte d[2 * kFloatLanes];
  to_f16_and_back(sum_wx / sum_w).store_f16(d);
  ByteLanes<Isa, 16> bytes;
  for (std::size_t i = 0; i < 16; ++i) {
    V byte = V::broadcast(0);
    for (std::size_t bit = 0; bit < 8; ++bit)
      byte = byte + select_less(block.x(8 * i + bit), V::broadcast(0), V::broadcast(0),
                                V::broadcast(static_cast<float>(1 << bit)));
    bytes.set(i, byte);
  }
  for (std::size_t b = 0; b < n_blocks; ++b) {
    BlockQ1_0 one;
    __builtin_memcpy(&one.d, d + 2 * b, sizeof one.d);
    bytes.copy(b, 0, 16, one.bits);
    __builtin_memcpy(out + b * sizeof one, &one, sizeof one);
  }
}

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q1_0> =
    encode_batches<BlockQ1_0, 128, kFloatLanes, encode_q1_0<Isa, kWeightedOnly<Isa>>,
                   encode_q1_0<Isa, true>>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria

namespace cria {

/// The encoder of a type; null for types that cannot be weights.
template <class Isa>
EncodeFn encoder(DType type) {
  return with_dtype(type, [](auto t) -> EncodeFn {
    static_assert(Format<t>::kClass == DotClass::None || kDecodesOnly<t> ||
                  kEncoder<Isa, t> != nullptr);
    return kEncoder<Isa, t>;
  });
}

}  // namespace cria
