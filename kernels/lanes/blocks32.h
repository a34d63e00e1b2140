// Decoders in lanes of the types with a float scale for every 16, 32 or 128 values.
#pragma once

#include "kernels/formats/blocks32.h"
#include "kernels/lanes/lane_type.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

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

/// shares_head: the first sixteen bytes of a block are read anyway.
template <class V, class Block, bool shares_head>
struct LaneBlock32 {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr bool kSuper = false, kFull = false;
  static constexpr int kScales = 0;
  static auto d(typename V::RowPtr rows, std::size_t offset) {
    return V::template load_f16<sizeof(Block), offsetof(Block, d), shares_head>(rows, offset);
  }
};

template <class V, class Block, int zero>
struct LaneNibbles : LaneBlock32<V, Block, zero == 0> {
  static constexpr bool kBytewise = true;
  static constexpr int kZero = zero, kMax = 15;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const Nibbles<V> q(rows, offset + offsetof(Block, lo));
    f(0, q.low, q.high);
  }
};

template <class V>
struct LaneType<V, DType::Q4_0> : LaneNibbles<V, BlockQ4_0, 8> {};

template <class V>
struct LaneType<V, DType::Q8_0> : LaneBlock32<V, BlockQ8_0, false> {
  static constexpr bool kFull = true, kBytewise = true;
  static constexpr int kZero = V::kBias, kMax = 255;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const auto bias = V::splat8(V::kBias);
    const auto q = [&](std::size_t i) CRIA_INLINE {
      return V::add8(V::load(rows, offset + offsetof(BlockQ8_0, q) + i), bias);
    };
    f(0, q(0), q(16));
  }
};

/// Four times 32 bits that stand for 2 and 0, less 1.
template <class V>
struct LaneType<V, DType::Q1_0> : LaneBlock32<V, BlockQ1_0, true> {
  static constexpr int kZero = 1, kMax = 2;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const auto bits = V::load(rows, offset + offsetof(BlockQ1_0, bits));
    const auto bit_of_byte = V::same(&kBitOfByte);
    const auto spread = [&](const auto& from) CRIA_INLINE {
      return V::add_where(V::zero(), V::lookup(bits, V::same(&from)), bit_of_byte, V::splat8(2));
    };
    unroll<4>([&](auto j)
                  CRIA_INLINE { f(j, spread(kSpread<4 * j>), spread(kSpread<4 * j + 2>)); });
  }
};

/// The fifth bits of 32 weights: four bytes of each row, from byte At of a block on.
template <class V, int At>
struct FifthBits {
  typename V::Vec first, second, bits = V::same(&kBitOfByte);
  FifthBits(typename V::RowPtr rows, std::size_t offset) {
    const auto head = V::load(rows, offset);
    first = V::lookup(head, V::same(&kSpread<At>));
    second = V::lookup(head, V::same(&kSpread<At + 2>));
  }
  auto add(typename V::Vec nibbles, typename V::Vec hi) const {
    return V::add_where(nibbles, hi, bits, V::splat8(16));
  }
};

template <class V, class Block, int zero>
struct LaneFiveBits : LaneBlock32<V, Block, true> {
  static constexpr bool kFifthBits = true;
  static constexpr int kZero = zero, kMax = 31;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const FifthBits<V, offsetof(Block, hi)> hi(rows, offset);
    const Nibbles<V> q(rows, offset + offsetof(Block, lo));
    f(0, hi.add(q.low, hi.first), hi.add(q.high, hi.second));
  }
};

template <class V>
struct LaneType<V, DType::Q5_0> : LaneFiveBits<V, BlockQ5_0, 16> {};

/// The top bits of w0 lie in their bytes at 0 and 4, those of w1 at 2 and 6.
template <class V>
struct LaneType<V, DType::Q6_0> : LaneBlock32<V, BlockQ6_0, true> {
  static constexpr int kZero = 32, kMax = 63;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const auto hi = V::lookup(V::load(rows, offset), V::same(&kHi));
    const Nibbles<V> q(rows, offset + offsetof(BlockQ6_0, lo));
    f(0, join(q.low, hi), join(q.high, V::template take<2>(hi, V::splat8(0x33))));
  }

 private:
  static_assert(offsetof(BlockQ6_0, hi) == 2);
  static constexpr LaneConstant<std::uint8_t> kHi = {
      {2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9}};
  static constexpr LaneConstant<std::uint16_t> kUp = {{16, 16, 16, 16, 1, 1, 1, 1}};
  /// The mask removes bits that the multiplication carries into the next byte.
  static auto join(typename V::Vec low, typename V::Vec hi) {
    return V::bit_or(low, V::bit_and(V::mul16(hi, V::same(&kUp)), V::splat8(0x30)));
  }
};

template <class V, class Block>
struct LaneOffset {
  static auto offset_of(typename V::RowPtr rows, std::size_t offset) {
    return V::template load_f16<sizeof(Block), offsetof(Block, m)>(rows, offset);
  }
};

template <class V>
struct LaneType<V, DType::Q5_1> : LaneFiveBits<V, BlockQ5_1, 0>, LaneOffset<V, BlockQ5_1> {};

template <class V>
struct LaneType<V, DType::Q4_1> : LaneNibbles<V, BlockQ4_1, 0>, LaneOffset<V, BlockQ4_1> {};

// The types of four-bit floating point in lanes.

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
    unroll<2>([&](int j) CRIA_INLINE {
      const Fp4Nibbles<V> q(rows, offset + offsetof(BlockNVFP4, lo) + 16 * j);
      f(j, V::join_low(q.low, q.high), V::join_high(q.low, q.high));
    });
  }
};

template <class V>
struct LaneType<V, DType::MXFP4> : LaneBlock32<V, BlockMXFP4, false> {
  static constexpr bool kPowersOfTwo = true;
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

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
