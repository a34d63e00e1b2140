// The types of four-bit floating point in lanes.
#pragma once

#include "kernels/formats/fp4.h"
#include "kernels/lanes/blocks32.h"

namespace cria {

/// Twice E2M1, plus 12.
template <class V>
struct Fp4Nibbles {
  static constexpr int kZero = 12, kMax = 24;
  static constexpr LaneConstant<std::uint8_t> kBiased = [] {
    LaneConstant<std::uint8_t> t{};
    for (int i = 0; i < 16; ++i) t.at[i] = static_cast<std::uint8_t>(kTwiceE2m1[i] + kZero);
    return t;
  }();
  typename V::Vec low, high;
  Fp4Nibbles(typename V::RowPtr rows, std::size_t offset) {
    const Nibbles<V> q(rows, offset);
    const auto values = V::same(&kBiased);
    low = V::lookup(values, q.low);
    high = V::lookup(values, q.high);
  }
};

/// Two sub-blocks in sixteen bytes: eight bytes of nibbles of each.
template <class V>
struct LaneType<V, DType::NVFP4> {
  using Float8 = typename V::Float8;
  static constexpr std::size_t kBytes = sizeof(BlockNVFP4);
  static constexpr bool kSuper = false, kFull = false, kBytewise = true;
  static constexpr int kScales = 0, kZero = Fp4Nibbles<V>::kZero, kMax = Fp4Nibbles<V>::kMax;
  static void d(typename V::RowPtr rows, std::size_t offset, Float8 (&d)[4]) {
    const auto bytes = V::load_u32(rows, offset + offsetof(BlockNVFP4, e));
    unroll<4>([&](auto i) CRIA_INLINE { d[i] = V::half_of_ue4m3(V::template byte<i>(bytes)); });
  }
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    unroll<2>([&](auto j) CRIA_INLINE {
      const Fp4Nibbles<V> q(rows, offset + offsetof(BlockNVFP4, lo) + 16 * j);
      f(j, V::join_low(q.low, q.high), V::join_high(q.low, q.high));
    });
  }
};

template <class V>
struct LaneType<V, DType::MXFP4> : LaneBlock32<V, BlockMXFP4, false> {
  static constexpr bool kBytewise = true;
  static constexpr int kZero = Fp4Nibbles<V>::kZero, kMax = Fp4Nibbles<V>::kMax;
  static auto d(typename V::RowPtr rows, std::size_t offset) {
    return V::half_of_e8m0(
        V::template load_u8<sizeof(BlockMXFP4), offsetof(BlockMXFP4, e)>(rows, offset));
  }
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const Fp4Nibbles<V> q(rows, offset + offsetof(BlockMXFP4, lo));
    f(0, q.low, q.high);
  }
};

}  // namespace cria
