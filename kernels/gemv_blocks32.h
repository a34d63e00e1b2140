// The 32-value types in lanes.
#pragma once

#include "kernels/blocks.h"
#include "kernels/gemv.h"

namespace cria {

/// Sixteen bytes of nibbles: w0 from the low ones, w1 from the high ones.
template <class V>
struct Nibbles {
  typename V::Vec low, high;
  Nibbles(typename V::RowPtr rows, std::size_t offset) {
    const auto v = V::load(rows, offset), mask = V::splat8(15);
    low = V::template take<0>(v, mask);
    high = V::template take<4>(v, mask);
  }
};

template <class V, class Block>
struct LaneBlock32 {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr bool kSuper = false, kFull = false;
  static constexpr int kScales = 0;
  static auto d(typename V::RowPtr rows, std::size_t offset) { return V::load_f16(rows, offset + offsetof(Block, d)); }
};

template <class V>
struct LaneType<V, DType::Q4_0> : LaneBlock32<V, BlockQ4_0> {
  static constexpr int kZero = 8, kMax = 15;
  template <class F>
  static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const Nibbles<V> q(rows, offset + offsetof(BlockQ4_0, lo));
    f(0, q.low, q.high);
  }
};

template <class V>
struct LaneType<V, DType::Q8_0> : LaneBlock32<V, BlockQ8_0> {
  static constexpr bool kFull = true;
  static constexpr int kZero = V::kBias, kMax = 255;
  template <class F>
  static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const auto bias = V::splat8(V::kBias);
    const auto q = [&](std::size_t i) { return V::add8(V::load(rows, offset + offsetof(BlockQ8_0, q) + i), bias); };
    f(0, q(0), q(16));
  }
};

}  // namespace cria
