// Activations and cached keys and values to int8. Numerics: kernels/README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/f32x16.h"

namespace cria {

/// Steps from 0 to the largest value that are tried; the one with the least squared error wins. One step size
/// alone is as fine, but the best of three has about a tenth less error, which perplexity sees and time does
/// not. The first wins among equals.
inline constexpr float kStepsTried[] = {127.0F, 126.5F, 126.0F};

/// Quantizes Groups*16 values: q = round(x * (steps/amax)) in -127…127, returns d = amax/steps. All zero: d =
/// 0, q = 0. A NaN or an infinity among them: d = NaN, q = 0.
template <class Isa, std::size_t Groups>
[[gnu::always_inline]] inline float quantize_values(const float* x, std::int8_t* q) {
  using V = F32x16<Isa>;
  const V zero = V::broadcast(0), magic = V::broadcast(kRoundMagic);
  V largest = zero, fault = zero;
  for (std::size_t g = 0; g < Groups; ++g) {
    const V v = V::load(x + g * kFloatLanes);
    largest = max(abs(v), largest);
    fault = fma(v, zero, fault);  // 0, or NaN for all that is not finite
  }
  float amax = largest.max_lane() + fault.sum();
  if (127.0F / amax == __builtin_inff()) amax = 0;
  float best_factor = amax == 0 ? 0 : 127.0F / amax, best_d = amax / 127.0F, least = __builtin_inff();
  for (const float steps : kStepsTried) {
    const float d = amax / steps, factor = amax == 0 ? 0 : steps / amax;
    const V scale = V::broadcast(factor), minus_d = V::broadcast(-d);
    V squares = zero;
    for (std::size_t g = 0; g < Groups; ++g) {
      const V v = V::load(x + g * kFloatLanes);
      const V error = fma(v * scale + magic - magic, minus_d, v);
      squares = fma(error, error, squares);
    }
    if (const float sum = squares.sum(); sum < least) {
      least = sum;
      best_d = d;
      best_factor = factor;
    }
  }
  const V scale = V::broadcast(best_factor);
  for (std::size_t g = 0; g < Groups; ++g) {
    (V::load(x + g * kFloatLanes) * scale + magic - magic).store_i8(q + g * kFloatLanes);
  }
  return best_d;
}

template <class Isa, std::size_t N>
[[gnu::always_inline]] inline std::int16_t sum_i8(const std::int8_t* q) {
  int sum = 0;
  for (std::size_t i = 0; i < N; ++i) sum += q[i];
  return static_cast<std::int16_t>(sum);
}

template <class Isa>
void quantize_row_32(const float* x, std::size_t cols, std::int8_t* q, float* d, std::int16_t* sum) {
  for (std::size_t b = 0; b < cols / 32; ++b) {
    d[b] = quantize_values<Isa, 2>(x + b * 32, q + b * 32);
    sum[b] = sum_i8<Isa, 32>(q + b * 32);
  }
}

template <class Isa>
void quantize_row_256(const float* x, std::size_t cols, std::int8_t* q, float* d, std::int16_t* sum) {
  for (std::size_t b = 0; b < cols / 256; ++b) d[b] = quantize_values<Isa, 16>(x + b * 256, q + b * 256);
  for (std::size_t s = 0; s < cols / 16; ++s) sum[s] = sum_i8<Isa, 16>(q + s * 16);
}

/// KernelSet::quantize.
template <class Isa>
void quantize(const float* x, std::size_t x_stride, Activations& acts, std::size_t t0, std::size_t t1) {
  const bool blocks32 = acts.type == ActType::Q8x32;
  if (!blocks32 && acts.type != ActType::Q8x256) return;  // F32: a view of x itself
  const std::size_t q_stride = (acts.cols + 63) / 64 * 64, d_stride = acts.cols / (blocks32 ? 32 : 256),
                    sum_stride = acts.cols / (blocks32 ? 32 : 16);
  const auto row = blocks32 ? quantize_row_32<Isa> : quantize_row_256<Isa>;
  for (std::size_t t = t0; t < t1; ++t)
    row(x + t * x_stride, acts.cols, acts.q + t * q_stride, acts.d + t * d_stride, acts.sum + t * sum_stride);
}

}  // namespace cria
