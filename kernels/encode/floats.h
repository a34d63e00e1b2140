// Weights as F32, F16 and BF16: conversions. No importance can improve on rounding.
#pragma once

#include <limits>

#include "kernels/encode/encoder.h"
#include "kernels/formats/format.h"
#include "kernels/simd/f32x16.h"

namespace cria {

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
struct Encoder<Isa, DType::F32> {
  static constexpr EncodeFn run = encode_f32<Isa>;
};
template <class Isa>
struct Encoder<Isa, DType::F16> {
  static constexpr EncodeFn run = encode_f16<Isa>;
};
template <class Isa>
struct Encoder<Isa, DType::BF16> {
  static constexpr EncodeFn run = encode_bf16<Isa>;
};

}  // namespace cria
