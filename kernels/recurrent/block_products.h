// The products of a block of rows with a head's keys and state. Numerics: kernels/README.md.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/recurrent/recurrent.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Calls f of the largest of the sizes that fits, until n are done: f(begin, constant).
template <std::size_t size, std::size_t... smaller, class F>
[[gnu::always_inline]] inline void in_pieces(std::size_t n, F f, std::size_t begin = 0) {
  for (; begin + size <= n; begin += size) f(begin, std::integral_constant<std::size_t, size>{});
  if constexpr (sizeof...(smaller) > 0) in_pieces<smaller...>(n, f, begin);
}

/// out[r] = Σ_i rows[r][i]·keys[i], 16 keys in lanes: four sums over i mod 4.
template <class Isa>
void multiply_by_keys(const float* rows, std::size_t n, std::size_t dim, const float* keys,
                      F32x16<Isa>* out) {
  using V = F32x16<Isa>;
  in_pieces<V::kParts <= 2 ? 2 : 1, 1>(n, [&](std::size_t begin, auto size) {
    constexpr std::size_t kSize = decltype(size)::value;
    V sums[4][kSize];
    CRIA_UNROLL
    for (std::size_t p = 0; p < 4; ++p) CRIA_UNROLL
    for (std::size_t r = 0; r < kSize; ++r) sums[p][r] = V::broadcast(0);
    const auto add = [&](std::size_t i, std::size_t p) CRIA_INLINE {
      const V key = V::load(keys + i * kRecurrentBlock);
      CRIA_UNROLL
      for (std::size_t r = 0; r < kSize; ++r)
        sums[p][r] = fma(V::broadcast(rows[(begin + r) * dim + i]), key, sums[p][r]);
    };
    std::size_t i = 0;
    for (; i + 4 <= dim; i += 4) {
      CRIA_UNROLL
      for (std::size_t p = 0; p < 4; ++p) add(i + p, p);
    }
    if (i < dim) add(i, 0);
    if (i + 1 < dim) add(i + 1, 1);
    if (i + 2 < dim) add(i + 2, 2);
    CRIA_UNROLL
    for (std::size_t r = 0; r < kSize; ++r)
      out[begin + r] = (sums[0][r] + sums[1][r]) + (sums[2][r] + sums[3][r]);
  });
}

/// out[r] = Σ_i rows[r][i]·strip[i], one sum, i ascending; rows of strip and out are kStrip values.
template <class Isa>
void multiply_rows(const float* rows, std::size_t n, std::size_t dim, const float* strip,
                   float* out) {
  using V = F32x16<Isa>;
  constexpr std::size_t kStrip = RecurrenceShape::kStrip, kGroups = V::kParts == 1 ? 2 : 1;
  in_pieces<V::kParts == 1 ? 8 : 6, 4, 2, 1>(n, [&](std::size_t begin, auto size) {
    constexpr std::size_t kSize = decltype(size)::value;
    for (std::size_t at = 0; at < kStrip; at += kGroups * kFloatLanes) {
      V sums[kSize][kGroups];
      CRIA_UNROLL
      for (std::size_t r = 0; r < kSize; ++r) CRIA_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g) sums[r][g] = V::broadcast(0);
      for (std::size_t i = 0; i < dim; ++i) {
        V state[kGroups];
        CRIA_UNROLL
        for (std::size_t g = 0; g < kGroups; ++g)
          state[g] = V::load(strip + i * kStrip + at + g * kFloatLanes);
        CRIA_UNROLL
        for (std::size_t r = 0; r < kSize; ++r) {
          const V x = V::broadcast(rows[(begin + r) * dim + i]);
          CRIA_UNROLL
          for (std::size_t g = 0; g < kGroups; ++g) sums[r][g] = fma(x, state[g], sums[r][g]);
        }
      }
      CRIA_UNROLL
      for (std::size_t r = 0; r < kSize; ++r) CRIA_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g)
        sums[r][g].store(out + (begin + r) * kStrip + at + g * kFloatLanes);
    }
  });
}

/// The state after a block: to[i] = from[i]·gamma[i] + Σ_s keys[i][s]·updates[s], s ascending, for
/// a strip; from may be to. Rows of updates are `stride` floats apart.
template <class Isa>
void commit_strip(const float* from, float* to, std::size_t dim, const float* gamma,
                  const float* keys, const float* updates, std::size_t stride) {
  using V = F32x16<Isa>;
  constexpr std::size_t kStrip = RecurrenceShape::kStrip, kGroups = V::kParts == 1 ? 2 : 1;
  in_pieces<4, 1>(dim, [&](std::size_t begin, auto size) {
    constexpr std::size_t kSize = decltype(size)::value;
    for (std::size_t at = 0; at < kStrip; at += kGroups * kFloatLanes) {
      const std::size_t first = begin * kStrip + at;
      V x[kSize][kGroups];
      CRIA_UNROLL
      for (std::size_t i = 0; i < kSize; ++i) CRIA_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g)
        x[i][g] =
            V::load(from + first + i * kStrip + g * kFloatLanes) * V::broadcast(gamma[begin + i]);
      for (std::size_t s = 0; s < kRecurrentBlock; ++s) {
        V update[kGroups];
        CRIA_UNROLL
        for (std::size_t g = 0; g < kGroups; ++g)
          update[g] = V::load(updates + s * stride + at + g * kFloatLanes);
        CRIA_UNROLL
        for (std::size_t i = 0; i < kSize; ++i) {
          const V key = V::broadcast(keys[(begin + i) * kRecurrentBlock + s]);
          CRIA_UNROLL
          for (std::size_t g = 0; g < kGroups; ++g) x[i][g] = fma(key, update[g], x[i][g]);
        }
      }
      CRIA_UNROLL
      for (std::size_t i = 0; i < kSize; ++i) CRIA_UNROLL
      for (std::size_t g = 0; g < kGroups; ++g)
        x[i][g].store(to + first + i * kStrip + g * kFloatLanes);
    }
  });
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
