// Kernels over one row of floats. Lengths are any; tails count as
// zero-padded to 16. Numerics: kernels/README.md.
#pragma once

#include <cstddef>

#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Calls f(offset, lanes) for each group of 16 of n values: F32x16
/// loads and stores of `lanes` values at offset.
template <class F>
[[gnu::always_inline]] inline void for_each_group(std::size_t n, F f) {
  std::size_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) f(i, kFloatLanes);
  if (i < n) f(i, n - i);
}
template <class Isa>
[[gnu::always_inline]] inline F32x16<Isa> load_group(const float* p, std::size_t lanes) {
  return lanes == kFloatLanes ? F32x16<Isa>::load(p) : F32x16<Isa>::load_partial(p, lanes);
}
template <class Isa>
[[gnu::always_inline]] inline void store_group(const F32x16<Isa>& v, float* p, std::size_t lanes) {
  lanes == kFloatLanes ? v.store(p) : v.store_partial(p, lanes);
}

template <class Isa>
void rms_norm(const float* x, const float* w, float eps, float* y, std::size_t n) {
  using V = F32x16<Isa>;
  V squares = V::broadcast(0);
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    const V v = load_group<Isa>(x + i, lanes);
    squares = fma(v, v, squares);
  });
  const V rms = V::broadcast(1.0F / __builtin_sqrtf(squares.sum() / static_cast<float>(n) + eps));
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    const V v = load_group<Isa>(x + i, lanes) * rms;
    store_group(w == nullptr ? v : v * load_group<Isa>(w + i, lanes), y + i, lanes);
  });
}

template <class Isa>
void layer_norm(const float* x, const float* w, const float* b, float eps, float* y,
                std::size_t n) {
  using V = F32x16<Isa>;
  V total = V::broadcast(0), squares = V::broadcast(0);
  for_each_group(
      n, [&](std::size_t i, std::size_t lanes) { total = total + load_group<Isa>(x + i, lanes); });
  const V mean = V::broadcast(total.sum() / static_cast<float>(n));
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    store_group(load_group<Isa>(x + i, lanes) - mean, y + i, lanes);
    const V centred = load_group<Isa>(y + i, lanes);  // zeros after the end again
    squares = fma(centred, centred, squares);
  });
  const V scale = V::broadcast(1.0F / __builtin_sqrtf(squares.sum() / static_cast<float>(n) + eps));
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    V v = load_group<Isa>(y + i, lanes) * scale;
    if (w != nullptr) v = v * load_group<Isa>(w + i, lanes);
    if (b != nullptr) v = v + load_group<Isa>(b + i, lanes);
    store_group(v, y + i, lanes);
  });
}

template <class Isa>
void add_scaled(float* y, const float* x, float scale, std::size_t n) {
  using V = F32x16<Isa>;
  const V factor = V::broadcast(scale);
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    store_group(fma(factor, load_group<Isa>(x + i, lanes), load_group<Isa>(y + i, lanes)), y + i,
                lanes);
  });
}

/// Loops that compilers vectorize. Eight rows at a time, so that y is seldom read and written.
template <class Isa>
void subtract_rows(double* __restrict y, const double* const* rows, const double* factors,
                   std::size_t n_rows, std::size_t n) {
  constexpr std::size_t kSome = 8;
  std::size_t i = 0;
  for (; i + kSome <= n_rows; i += kSome) {
    const double* const* const some = rows + i;
    for (std::size_t j = 0; j < n; ++j) {
      double sum = y[j];
      for (std::size_t p = 0; p < kSome; ++p) sum -= factors[i + p] * some[p][j];
      y[j] = sum;
    }
  }
  for (; i < n_rows; ++i)
    for (std::size_t j = 0; j < n; ++j) y[j] -= factors[i] * rows[i][j];
}

template <class Isa>
void scale_row(float* x, float scale, std::size_t n) {
  using V = F32x16<Isa>;
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    store_group(load_group<Isa>(x + i, lanes) * V::broadcast(scale), x + i, lanes);
  });
}

template <class Isa>
void add(float* y, const float* x, std::size_t n) {
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    store_group(load_group<Isa>(y + i, lanes) + load_group<Isa>(x + i, lanes), y + i, lanes);
  });
}

template <class Isa>
void silu_mul(float* gate, const float* up, std::size_t n) {
  using V = F32x16<Isa>;
  const V zero = V::broadcast(0), one = V::broadcast(1);
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    const V x = load_group<Isa>(gate + i, lanes);
    store_group(x / (one + exp(zero - x)) * load_group<Isa>(up + i, lanes), gate + i, lanes);
  });
}

template <class Isa>
void softmax(float* x, std::size_t n) {
  using V = F32x16<Isa>;
  if (n == 0) return;
  V largest = V::broadcast(x[0]);
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    if (lanes == kFloatLanes) {
      largest = max(V::load(x + i), largest);
    } else {
      for (; lanes > 0; --lanes, ++i) largest = max(V::broadcast(x[i]), largest);
    }
  });
  const V shift = V::broadcast(largest.max_lane());
  V total = V::broadcast(0);
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    store_group(exp(load_group<Isa>(x + i, lanes) - shift), x + i, lanes);
    total = total + load_group<Isa>(x + i, lanes);
  });
  const V scale = V::broadcast(1.0F / total.sum());
  for_each_group(n, [&](std::size_t i, std::size_t lanes) {
    store_group(load_group<Isa>(x + i, lanes) * scale, x + i, lanes);
  });
}

/// Rotates n <= 16 pairs (a[i], b[i]) by (cos[i], sin[i]).
template <class Isa>
[[gnu::always_inline]] inline void rotate_halves(float* a, float* b, const float* cos,
                                                 const float* sin, std::size_t n) {
  using V = F32x16<Isa>;
  const V x0 = load_group<Isa>(a, n), x1 = load_group<Isa>(b, n), c = V::load(cos),
          s = V::load(sin);
  store_group(fma(x0, c, V::broadcast(0) - x1 * s), a, n);
  store_group(fma(x1, c, x0 * s), b, n);
}

/// Rotates the pairs (2i, 2i+1) among n <= 16 values; cos holds every
/// cosine twice, sin every sine as (-sin, sin).
template <class Isa>
[[gnu::always_inline]] inline void rotate_adjacent(float* x, const float* cos, const float* sin,
                                                   std::size_t n) {
  using V = F32x16<Isa>;
  const V v = load_group<Isa>(x, n);
  store_group(fma(v, V::load(cos), swap_pairs(v) * V::load(sin)), x, n);
}

template <class Isa>
void rope(float* x, std::size_t n_heads, std::size_t head_dim, std::size_t n_rot, bool half_split,
          const float* cos_sin) {
  const std::size_t pairs = n_rot / 2, step = half_split ? kFloatLanes : kFloatLanes / 2;
  for (std::size_t first = 0; first < pairs; first += step) {
    const std::size_t n = pairs - first < step ? pairs - first : step;
    alignas(64) float cos[kFloatLanes] = {}, sin[kFloatLanes] = {};
    for (std::size_t i = 0; i < n; ++i) {
      const float c = cos_sin[2 * (first + i)], s = cos_sin[2 * (first + i) + 1];
      if (half_split) {
        cos[i] = c;
        sin[i] = s;
      } else {
        cos[2 * i] = cos[2 * i + 1] = c;
        sin[2 * i] = -s;
        sin[2 * i + 1] = s;
      }
    }
    for (std::size_t head = 0; head < n_heads; ++head) {
      float* row = x + head * head_dim;
      if (half_split) {
        rotate_halves<Isa>(row + first, row + pairs + first, cos, sin, n);
      } else {
        rotate_adjacent<Isa>(row + 2 * first, cos, sin, 2 * n);
      }
    }
  }
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
