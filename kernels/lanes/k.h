// Decoders in lanes of the K types and the ternary types.
#pragma once

#include "kernels/formats/k.h"
#include "kernels/lanes/blocks32.h"
#include "kernels/lanes/lane_type.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <class V, class Block, int scale_count>
struct LaneBlock256 {
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr bool kSuper = true, kFull = false;
  static constexpr int kScales = scale_count;
  static auto d(typename V::RowPtr rows, std::size_t offset) {
    return V::template load_f16<sizeof(Block), offsetof(Block, d)>(rows, offset);
  }
};

/// The types whose rows begin with a float scale: eight integer scales, full weights.
template <class V, DType type>
struct LaneRowScale {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Block = typename Format<type>::Block;
  using Header = typename Format<type>::Header;
  static constexpr std::size_t kBytes = sizeof(Block);
  static constexpr bool kSuper = true, kFull = true;
  static constexpr int kScales = 8, kZero = V::kBias, kMax = 255;
  static auto d(RowPtr rows, std::size_t /*offset*/) {
    if constexpr (std::is_same_v<Header, F16Header>) {
      return V::template load_f16<sizeof(Block), 0, false>(rows, 0);
    } else if constexpr (Header::kFactor != 1) {
      return V::mul(V::load_f32(rows, 0), V::splat_float(Header::kFactor));
    } else {
      return V::load_f32(rows, 0);
    }
  }
};

/// The eight scales and mins of Q4_K and Q5_K: one load of the sixteen bytes d, dmin, scales.
template <class V, class Block>
struct LaneScalesAndMins : LaneBlock256<V, Block, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(Block, d) == 0 && offsetof(Block, scales) == 4);
  static constexpr int kZero = 0;

  static auto dmin(RowPtr rows, std::size_t offset) {
    return V::template load_f16<sizeof(Block), offsetof(Block, dmin)>(rows, offset);
  }
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec head = V::load(rows, offset), low = V::lookup(head, V::same(&kScaleBytes));
    s[0] = V::bit_or(V::bit_and(low, V::same(&kLowBits)),
                     top_bits(V::lookup(head, V::same(&kScaleTops))));
  }
  /// Mins of the second half are high nibbles.
  static void mins(RowPtr rows, std::size_t offset, Vec (&m)[1]) {
    const Vec head = V::load(rows, offset),
              low = V::mul16(V::lookup(head, V::same(&kMinBytes)), V::same(&kMinShift));
    m[0] = V::bit_or(V::bit_and(V::template shr16<4>(low), V::same(&kLowBits)),
                     top_bits(V::lookup(head, V::same(&kMinTops))));
  }

 private:
  static Vec top_bits(Vec v) { return V::template shr16<2>(V::bit_and(v, V::splat16(0xC0))); }
  static constexpr std::uint8_t kNo = 0x80;
  static constexpr LaneConstant<std::uint8_t>
      kScaleBytes = {{4, kNo, 5, kNo, 6, kNo, 7, kNo, 12, kNo, 13, kNo, 14, kNo, 15, kNo}},
      kScaleTops = {{kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 4, kNo, 5, kNo, 6, kNo, 7, kNo}},
      kMinBytes = {{8, kNo, 9, kNo, 10, kNo, 11, kNo, 12, kNo, 13, kNo, 14, kNo, 15, kNo}},
      kMinTops = {{kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 8, kNo, 9, kNo, 10, kNo, 11, kNo}};
  static constexpr LaneConstant<std::uint16_t> kLowBits = {{63, 63, 63, 63, 15, 15, 15, 15}},
                                               kMinShift = {{16, 16, 16, 16, 1, 1, 1, 1}};
};

template <class V>
struct LaneType<V, DType::Q4_K> : LaneScalesAndMins<V, BlockQ4_K> {
  static constexpr bool kBytewise = true;
  static constexpr int kMax = 15;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    unroll<4>([&](auto j) CRIA_INLINE {
      const Nibbles<V> a(rows, offset + offsetof(BlockQ4_K, lo) + 32 * j);
      const Nibbles<V> b(rows, offset + offsetof(BlockQ4_K, lo) + 32 * j + 16);
      f(2 * j, a.low, b.low);
      f(2 * j + 1, a.high, b.high);
    });
  }
};

template <class V>
struct LaneType<V, DType::Q5_K> : LaneScalesAndMins<V, BlockQ5_K> {
  using Vec = typename V::Vec;
  static constexpr bool kBytewise = true;
  static constexpr int kMax = 31;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const Vec top0 = V::load(rows, offset + offsetof(BlockQ5_K, hi));
    const Vec top1 = V::load(rows, offset + offsetof(BlockQ5_K, hi) + 16);
    unroll<4>([&](auto j) CRIA_INLINE {
      const Nibbles<V> a(rows, offset + offsetof(BlockQ5_K, lo) + 32 * j);
      const Nibbles<V> b(rows, offset + offsetof(BlockQ5_K, lo) + 32 * j + 16);
      f(2 * j, join<2 * j>(a.low, top0), join<2 * j>(b.low, top1));
      f(2 * j + 1, join<2 * j + 1>(a.high, top0), join<2 * j + 1>(b.high, top1));
    });
  }

 private:
  template <int Bit>
  static Vec join(Vec low, Vec top) {
    return V::bit_or(low, V::template take<Bit - 4>(top, V::splat8(16)));
  }
};

/// 256 two-bit numbers: per half of 128, bits 2j and 2j+1 of byte l are number 32j + l. f(half, j,
/// first 16, next 16), j by compile time.
template <class V, class F>
CRIA_INLINE inline void two_bits(typename V::RowPtr rows, std::size_t offset, F&& f) {
  unroll<2>([&](auto half) CRIA_INLINE {
    const auto a = V::load(rows, offset + 32 * half), b = V::load(rows, offset + 32 * half + 16),
               mask = V::splat8(3);
    unroll<4>([&](auto j) CRIA_INLINE {
      f(half, j, V::template take<2 * j>(a, mask), V::template take<2 * j>(b, mask));
    });
  });
}

template <class V>
struct LaneType<V, DType::Q2_K> : LaneBlock256<V, BlockQ2_K, 16> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static constexpr bool kBytewise = true;
  static constexpr int kZero = 0, kMax = 3;
  static auto dmin(RowPtr rows, std::size_t offset) {
    return V::template load_f16<sizeof(BlockQ2_K), offsetof(BlockQ2_K, dmin)>(rows, offset);
  }
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) { nibbles<0>(rows, offset, s); }
  static void mins(RowPtr rows, std::size_t offset, Vec (&m)[2]) { nibbles<4>(rows, offset, m); }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    two_bits<V>(rows, offset + offsetof(BlockQ2_K, q),
                [&](int half, int j, Vec w0, Vec w1) CRIA_INLINE { f(4 * half + j, w0, w1); });
  }

 private:
  template <int Shift>
  static void nibbles(RowPtr rows, std::size_t offset, Vec (&out)[2]) {
    const Vec v =
        V::template take<Shift>(V::load(rows, offset + offsetof(BlockQ2_K, scales)), V::splat8(15));
    out[0] = V::zip_low8(v, V::zero());
    out[1] = V::zip_high8(v, V::zero());
  }
};

template <class V>
struct LaneType<V, DType::Q3_K> : LaneBlock256<V, BlockQ3_K, 16> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static constexpr bool kBytewise = true;
  static constexpr int kZero = 4, kMax = 7;
  /// The last sixteen bytes of the block hold the scales at 2…13.
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    static_assert(offsetof(BlockQ3_K, scales) == sizeof(BlockQ3_K) - 14);
    const Vec tail = V::load(rows, offset + sizeof(BlockQ3_K) - 16);
    const Vec low = V::lookup(tail, V::same(&kLowBytes));
    const Vec top = V::mul16(V::lookup(tail, V::same(&kTopBytes)), V::same(&kTopShift));
    s[0] = join(low, top);
    s[1] = join(V::template shr16<4>(low), V::template shr16<4>(top));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec top0 = V::load(rows, offset + offsetof(BlockQ3_K, hi));
    const Vec top1 = V::load(rows, offset + offsetof(BlockQ3_K, hi) + 16);
    two_bits<V>(rows, offset + offsetof(BlockQ3_K, lo),
                [&](int half, auto j, Vec w0, Vec w1) CRIA_INLINE {
                  if (half == 0) {
                    f(j, third<j>(w0, top0), third<j>(w1, top1));
                  } else {
                    f(4 + j, third<4 + j>(w0, top0), third<4 + j>(w1, top1));
                  }
                });
  }

 private:
  static Vec join(Vec low, Vec top) {
    return V::sub16(V::bit_or(V::bit_and(low, V::splat16(15)), V::bit_and(top, V::splat16(0x30))),
                    V::splat16(32));
  }
  template <int Bit>
  static Vec third(Vec low, Vec top) {
    return V::bit_or(low, V::template take<Bit - 2>(top, V::splat8(4)));
  }
  static constexpr std::uint8_t kNo = 0x80;
  static constexpr LaneConstant<std::uint8_t> kLowBytes = {{2, kNo, 3, kNo, 4, kNo, 5, kNo, 6, kNo,
                                                            7, kNo, 8, kNo, 9, kNo}},
                                              kTopBytes = {{10, kNo, 11, kNo, 12, kNo, 13, kNo, 10,
                                                            kNo, 11, kNo, 12, kNo, 13, kNo}};
  static constexpr LaneConstant<std::uint16_t> kTopShift = {{16, 16, 16, 16, 4, 4, 4, 4}};
};

template <class V>
struct LaneType<V, DType::Q6_K> : LaneBlock256<V, BlockQ6_K, 16> {
  using Vec = typename V::Vec;
  static constexpr bool kBytewise = true;
  static constexpr int kZero = 32, kMax = 63;
  static void scales(typename V::RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec bytes = V::load(rows, offset + offsetof(BlockQ6_K, scales));
    s[0] = V::widen_low(bytes);
    s[1] = V::widen_high(bytes);
  }
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    unroll<2>([&](int half) CRIA_INLINE {
      const std::size_t lo = offset + offsetof(BlockQ6_K, lo) + 64 * half;
      const Nibbles<V> a(rows, lo), b(rows, lo + 16), c(rows, lo + 32), e(rows, lo + 48);
      const Vec top0 = V::load(rows, offset + offsetof(BlockQ6_K, hi) + 32 * half);
      const Vec top1 = V::load(rows, offset + offsetof(BlockQ6_K, hi) + 32 * half + 16);
      f(4 * half, join<-4>(a.low, top0), join<-4>(b.low, top1));
      f(4 * half + 1, join<-2>(c.low, top0), join<-2>(e.low, top1));
      f(4 * half + 2, join<0>(a.high, top0), join<0>(b.high, top1));
      f(4 * half + 3, join<2>(c.high, top0), join<2>(e.high, top1));
    });
  }

 private:
  template <int Shift>
  static Vec join(Vec low, Vec top) {
    return V::bit_or(low, V::template take<Shift>(top, V::splat8(0x30)));
  }
};

// The ternary types in lanes.

template <class V>
struct LaneType<V, DType::TQ2_0> : LaneBlock256<V, BlockTQ2_0, 0> {
  static constexpr bool kBytewise = true;
  static constexpr int kZero = 1, kMax = 3;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    two_bits<V>(rows, offset + offsetof(BlockTQ2_0, q),
                [&](int half, int j, auto w0, auto w1) CRIA_INLINE { f(4 * half + j, w0, w1); });
  }
};

/// A byte holds its trits as a fraction of 256: times three, the part above 256 is the next trit.
/// The bytes are kept less 128, which times three is again less 128 (modulo 256), so that signed
/// comparisons find the trit.
template <class V>
struct LaneType<V, DType::TQ1_0> : LaneBlock256<V, BlockTQ1_0, 0> {
  using Vec = typename V::Vec;
  static constexpr int kZero = 1, kMax = 2;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const Vec bias = V::splat8(0x80);
    const auto bytes = [&](std::size_t i) CRIA_INLINE {
      return V::bit_xor(V::load(rows, offset + offsetof(BlockTQ1_0, q) + i), bias);
    };
    Vec a = bytes(0), b = bytes(16), c = bytes(32);
    unroll<5>([&](int n) CRIA_INLINE {
      f(n, trit(a), trit(b));
      a = thrice(a);
      b = thrice(b);
    });
    const Vec c1 = thrice(c), c2 = thrice(c1), c3 = thrice(c2), c4 = thrice(c3);
    f(5, trit(c), trit(c1));
    f(6, trit(c2), trit(c3));
    f(7, trit(c4), trit(V::bit_xor(last(rows, offset), bias)));
  }

 private:
  static Vec thrice(Vec v) { return V::add8(V::add8(v, v), v); }
  static Vec trit(Vec v) { return V::count_less(v, V::splat8(85 - 128), V::splat8(170 - 128)); }
  /// The four bytes qh times 1, 3, 9, 27.
  static Vec last(typename V::RowPtr rows, std::size_t offset) {
    static_assert(offsetof(BlockTQ1_0, qh) == sizeof(BlockTQ1_0) - 6);
    const Vec v = V::lookup(V::load(rows, offset + sizeof(BlockTQ1_0) - 16), V::same(&kQh)),
              low = V::splat16(0xFF);
    const Vec even = V::mul16(V::bit_and(v, low), V::same(&kPowers));
    const Vec odd = V::mul16(V::template shr16<8>(v), V::same(&kPowers));
    return V::bit_or(V::bit_and(even, low), V::template shl16<8>(odd));
  }
  static constexpr LaneConstant<std::uint8_t> kQh = {
      {10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13, 10, 11, 12, 13}};
  static constexpr LaneConstant<std::uint16_t> kPowers = {{1, 1, 3, 3, 9, 9, 27, 27}};
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
