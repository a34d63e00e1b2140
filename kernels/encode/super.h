// What the encoders of super-blocks share: lanes are sub-blocks, and
// those of one super-block have d in common.
#pragma once

#include "kernels/encode/pack.h"
#include "kernels/encode/search.h"

namespace cria {

/// Lane l of the result: op over the lanes of l's group, from its first to its last.
template <class Isa, std::size_t group, class Op>
F32x16<Isa> across(const F32x16<Isa>& v, Op op) {
  alignas(64) float lanes[kFloatLanes];
  v.store(lanes);
  for (std::size_t first = 0; first < kFloatLanes; first += group) {
    float all = lanes[first];
    for (std::size_t l = first + 1; l < first + group; ++l) all = op(all, lanes[l]);
    for (std::size_t l = first; l < first + group; ++l) lanes[l] = all;
  }
  return F32x16<Isa>::load(lanes);
}
template <class Isa, std::size_t group>
F32x16<Isa> group_sum(const F32x16<Isa>& v) {
  return across<Isa, group>(v, [](float a, float b) { return a + b; });
}
/// The number of the largest magnitude, with its sign.
template <class Isa, std::size_t group>
F32x16<Isa> group_peak(const F32x16<Isa>& v) {
  return across<Isa, group>(
      v, [](float a, float b) { return __builtin_fabsf(a) < __builtin_fabsf(b) ? b : a; });
}

/// d and dmin of super-blocks, the same in all lanes of each, the integers s and m of their
/// sub-blocks, and the error that they leave to each sub-block.
template <class Isa>
struct SuperScales {
  using V = F32x16<Isa>;
  V d = V::broadcast(0), dmin = V::broadcast(0), s = V::broadcast(0), m = V::broadcast(0),
    error = V::broadcast(0x1p126F);

  /// Takes the other's s and m where they leave less error to the sub-block.
  void better_sub_blocks(const V& other_s, const V& other_m, const V& other_error) {
    s = select_less(other_error, error, other_s, s);
    m = select_less(other_error, error, other_m, m);
    error = min(other_error, error);
  }
  /// Takes the other where it leaves less error to the super-block.
  template <std::size_t group>
  void better_super_blocks(const SuperScales& other) {
    const V mine = group_sum<Isa, group>(error), others = group_sum<Isa, group>(other.error);
    d = select_less(others, mine, other.d, d);
    dmin = select_less(others, mine, other.dmin, dmin);
    s = select_less(others, mine, other.s, s);
    m = select_less(others, mine, other.m, m);
    error = select_less(others, mine, other.error, error);
  }
};

/// Calls plain or weighted with as many super-blocks at once as their sub-blocks of N values fill
/// lanes.
template <class Block, std::size_t N, class F>
[[gnu::always_inline]] inline void each_super_batch(const float* x, const float* importance,
                                                    std::size_t n, std::byte* blocks, F plain,
                                                    F weighted) {
  each_batch<Block, 256, kFloatLanes * N / 256>(
      x, importance, n, blocks,
      [=](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
        (w == nullptr ? plain : weighted)(some, w, n_blocks, out);
      });
}

}  // namespace cria
