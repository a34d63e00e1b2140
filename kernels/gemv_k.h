// The K types in lanes.
#pragma once

#include "kernels/blocks.h"
#include "kernels/gemv.h"
#include "kernels/gemv_blocks32.h"

namespace cria {

template <class V, class Block, int scale_count>
struct LaneBlock256 {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr bool kSuper = true, kFull = false;
  static constexpr int kScales = scale_count;
  static auto d(typename V::RowPtr rows, std::size_t offset) { return V::load_f16(rows, offset + offsetof(Block, d)); }
};

/// The eight scales and mins of Q4_K and Q5_K: one load of the sixteen bytes d, dmin, scales.
template <class V, class Block>
struct LaneScalesAndMins : LaneBlock256<V, Block, 8> {
  using Vec = typename V::Vec;
  static_assert(offsetof(Block, d) == 0 && offsetof(Block, scales) == 4);
  static constexpr int kZero = 0;

  static auto dmin(typename V::RowPtr rows, std::size_t offset) {
    return V::load_f16(rows, offset + offsetof(Block, dmin));
  }
  static void scales(typename V::RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    alignas(16) static constexpr std::uint8_t kFirst[16] = {4, 128, 5, 128, 6, 128, 7, 128, 12, 128, 13, 128, 14, 128, 15, 128};
    alignas(16) static constexpr std::uint8_t kTop[16] = {128, 128, 128, 128, 128, 128, 128, 128, 4, 128, 5, 128, 6, 128, 7, 128};
    s[0] = join(V::load(rows, offset), kFirst, kTop);
  }
  static void mins(typename V::RowPtr rows, std::size_t offset, Vec (&m)[1]) {
    alignas(16) static constexpr std::uint8_t kFirst[16] = {8, 128, 9, 128, 10, 128, 11, 128, 12, 128, 13, 128, 14, 128, 15, 128};
    alignas(16) static constexpr std::uint8_t kTop[16] = {128, 128, 128, 128, 128, 128, 128, 128, 8, 128, 9, 128, 10, 128, 11, 128};
    // The mins of the second half are the high nibbles.
    const Vec head = V::load(rows, offset);
    const Vec low = V::lookup(head, V::same(kFirst));
    const Vec high = V::template shr16<4>(low);
    alignas(16) static constexpr std::uint16_t kLow[8] = {63, 63, 63, 63, 0, 0, 0, 0};
    alignas(16) static constexpr std::uint16_t kHigh[8] = {0, 0, 0, 0, 15, 15, 15, 15};
    const Vec top = V::template shr16<2>(V::bit_and(V::lookup(head, V::same(kTop)), V::splat16(0xC0)));
    return void(m[0] = V::bit_or(top, V::bit_or(V::bit_and(low, V::same(kLow)), V::bit_and(high, V::same(kHigh)))));
  }

 private:
  static Vec join(Vec head, const std::uint8_t* first, const std::uint8_t* top_bytes) {
    alignas(16) static constexpr std::uint16_t kLow[8] = {63, 63, 63, 63, 15, 15, 15, 15};
    const Vec top = V::template shr16<2>(V::bit_and(V::lookup(head, V::same(top_bytes)), V::splat16(0xC0)));
    return V::bit_or(top, V::bit_and(V::lookup(head, V::same(first)), V::same(kLow)));
  }
};

template <class V>
struct LaneType<V, DType::Q4_K> : LaneScalesAndMins<V, BlockQ4_K> {
  static constexpr int kMax = 15;
  template <class F>
  static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    for (int j = 0; j < 4; ++j) {
      const Nibbles<V> a(rows, offset + offsetof(BlockQ4_K, lo) + 32 * j);
      const Nibbles<V> b(rows, offset + offsetof(BlockQ4_K, lo) + 32 * j + 16);
      f(2 * j, a.low, b.low);
      f(2 * j + 1, a.high, b.high);
    }
  }
};

template <class V>
struct LaneType<V, DType::Q6_K> : LaneBlock256<V, BlockQ6_K, 16> {
  using Vec = typename V::Vec;
  static constexpr int kZero = 32, kMax = 63;
  static void scales(typename V::RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec bytes = V::load(rows, offset + offsetof(BlockQ6_K, scales));
    s[0] = V::widen_low(bytes);
    s[1] = V::widen_high(bytes);
  }
  template <class F>
  static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    for (int half = 0; half < 2; ++half) {
      const std::size_t lo = offset + offsetof(BlockQ6_K, lo) + 64 * half;
      const Nibbles<V> a(rows, lo), b(rows, lo + 16), c(rows, lo + 32), e(rows, lo + 48);
      const Vec top0 = V::load(rows, offset + offsetof(BlockQ6_K, hi) + 32 * half);
      const Vec top1 = V::load(rows, offset + offsetof(BlockQ6_K, hi) + 32 * half + 16);
      f(4 * half, join<-4>(a.low, top0), join<-4>(b.low, top1));
      f(4 * half + 1, join<-2>(c.low, top0), join<-2>(e.low, top1));
      f(4 * half + 2, join<0>(a.high, top0), join<0>(b.high, top1));
      f(4 * half + 3, join<2>(c.high, top0), join<2>(e.high, top1));
    }
  }

 private:
  template <int Shift>
  static Vec join(Vec low, Vec top) {
    return V::bit_or(low, V::template take<Shift>(top, V::splat8(0x30)));
  }
};

}  // namespace cria
