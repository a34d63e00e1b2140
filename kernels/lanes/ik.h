// IQ2_K … IQ6_K in lanes: tables of up to 64 values, sixteen looked up at a time.
#pragma once

#include "kernels/formats/ik.h"
#include "kernels/lanes/iq4.h"
#include "kernels/lanes/k.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Values first … first + 15 of a table plus a zero point, or, with `less`, what they exceed the
/// sixteen before them by.
template <const auto& table, int zero, std::size_t first, bool less = false>
inline constexpr LaneConstant<std::uint8_t> kTableLane = [] {
  LaneConstant<std::uint8_t> lane{};
  for (std::size_t i = 0; i < 16 && first + i < table.size(); ++i)
    lane.at[i] =
        static_cast<std::uint8_t>(table[first + i] - (less ? int{table[first + i - 16]} : -zero));
  return lane;
}();

/// Values of a table by their codes, plus a zero point.
template <class V, const auto& table, int zero>
struct LaneValues {
  using Vec = typename V::Vec;
  static Vec value(Vec code) { return V::lookup(V::same(&kTableLane<table, zero, 0>), code); }
  /// The value of a code of five bits: a nibble, and bit `bit` of top.
  template <int bit>
  static Vec value_of_32(Vec nibble, Vec top) {
    return V::add_where(value(nibble), top, V::splat8(1 << bit),
                        V::lookup(V::same(&kTableLane<table, 0, 16, true>), nibble));
  }
};

/// Small numbers from the first sixteen bytes of a block, its head.
template <class V>
struct LaneHead {
  using Vec = typename V::Vec;
  static constexpr std::uint8_t kNo = 0x80;
  /// Byte j of every lane: x where bit j of byte `first` and the next says so.
  template <int first>
  static Vec where_bits(Vec head, int x) {
    return V::add_where(V::zero(), V::lookup(head, V::same(&kSpread<first>)), V::same(&kBitOfByte),
                        V::splat8(x));
  }
  /// int16 j: 256 where bit j of byte `byte` says so.
  template <std::uint8_t byte>
  static Vec bits(Vec head) {
    static constexpr LaneConstant<std::uint8_t> kBytes = {
        {byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo}};
    static constexpr LaneConstant<std::uint16_t> kToBit8 = {{256, 128, 64, 32, 16, 8, 4, 2}};
    return V::bit_and(V::mul16(V::lookup(head, V::same(&kBytes)), V::same(&kToBit8)),
                      V::splat16(256));
  }
  /// Eight nibbles from byte `first` on, as int16.
  template <std::uint8_t first>
  static Vec nibbles(Vec head) {
    static constexpr LaneConstant<std::uint8_t> kBytes = {
        {first, kNo, first, kNo, first + 1, kNo, first + 1, kNo, first + 2, kNo, first + 2, kNo,
         first + 3, kNo, first + 3, kNo}};
    static constexpr LaneConstant<std::uint16_t> kFactors = {{16, 1, 16, 1, 16, 1, 16, 1}};
    return nibbles(head, kBytes, kFactors);
  }
  /// The same, first the low ones of four bytes, then the high ones.
  template <std::uint8_t first>
  static Vec halved_nibbles(Vec head) {
    static constexpr LaneConstant<std::uint8_t> kBytes = {
        {first, kNo, first + 1, kNo, first + 2, kNo, first + 3, kNo, first, kNo, first + 1, kNo,
         first + 2, kNo, first + 3, kNo}};
    static constexpr LaneConstant<std::uint16_t> kFactors = {{16, 16, 16, 16, 1, 1, 1, 1}};
    return nibbles(head, kBytes, kFactors);
  }
  /// Eight pairs of bits from byte `first` on, as bits 4 and 5 of int16.
  template <std::uint8_t first>
  static Vec top_bits(Vec head) {
    static constexpr LaneConstant<std::uint8_t> kBytes = {{first, kNo, first, kNo, first, kNo,
                                                           first, kNo, first + 1, kNo, first + 1,
                                                           kNo, first + 1, kNo, first + 1, kNo}};
    static constexpr LaneConstant<std::uint16_t> kFactors = {{64, 16, 4, 1, 64, 16, 4, 1}};
    return V::bit_and(
        V::template shr16<2>(V::mul16(V::lookup(head, V::same(&kBytes)), V::same(&kFactors))),
        V::splat16(0x30));
  }
  /// Scales of five bits: low ones and, in byte `byte`, a fifth of each.
  template <std::uint8_t byte>
  static Vec five_bit_scales(Vec head, Vec low) {
    return V::sub16(V::bit_or(low, V::template shr16<4>(bits<byte>(head))), V::splat16(16));
  }

 private:
  static Vec nibbles(Vec head, const LaneConstant<std::uint8_t>& bytes,
                     const LaneConstant<std::uint16_t>& factors) {
    return V::bit_and(
        V::template shr16<4>(V::mul16(V::lookup(head, V::same(&bytes)), V::same(&factors))),
        V::splat16(15));
  }
};

/// w plus byte j of the lanes of shifts.
template <class V>
typename V::Vec lane_shifted(typename V::Vec w, typename V::Vec shifts, int j) {
  return V::add8(w, V::lookup(shifts, V::splat8(j)));
}

/// The types whose blocks begin with d and extra.
template <class V, class Block, bool full>
struct LaneTable : LaneBlock256<V, Block, 16>,
                   LaneHead<V>,
                   LaneValues<V, Block::kValues, full ? V::kBias : -Block::kValues.front()> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Head = LaneHead<V>;
  static_assert(offsetof(Block, d) == 0 && offsetof(Block, extra) == 2);
  static constexpr bool kFull = full;  // also needed for negative scales and weights above 64
  static constexpr int kZero = full ? V::kBias : -Block::kValues.front();
  static constexpr int kMax = full ? 255 : kZero + Block::kValues.back() + Block::kShift;

 protected:
  /// Byte j of every lane: the shift of sub-block j.
  static Vec shifts(RowPtr rows, std::size_t offset) {
    return Head::template where_bits<2>(V::load(rows, offset), Block::kShift);
  }
  static Vec shifted(Vec w, Vec shifts, int j) { return lane_shifted<V>(w, shifts, j); }
  /// The scales of IQ4_K and IQ5_K.
  static void six_bit_scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec head = V::load(rows, offset);
    s[0] = V::sub16(V::bit_or(Head::template nibbles<8>(head), Head::template top_bits<4>(head)),
                    V::splat16(32));
    s[1] = V::sub16(V::bit_or(Head::template nibbles<12>(head), Head::template top_bits<6>(head)),
                    V::splat16(32));
  }
};

/// Calls f(j, first codes, second codes) for each 32 of a block whose codes of three bits lie as in
/// Q3_K.
template <class V, class F>
CRIA_INLINE inline void three_bits(typename V::RowPtr rows, std::size_t lo, std::size_t hi, F&& f) {
  const auto top0 = V::load(rows, hi), top1 = V::load(rows, hi + 16);
  two_bits<V>(rows, lo, [&](auto half, auto j, auto a, auto b) CRIA_INLINE {
    constexpr int kBit = 4 * half + j;
    const auto four = V::splat8(4);
    f(kBit, V::bit_or(a, V::template take<kBit - 2>(top0, four)),
      V::bit_or(b, V::template take<kBit - 2>(top1, four)));
  });
}

template <class V>
struct LaneType<V, DType::IQ2_K> : LaneTable<V, BlockIQ2_K, false> {
  using Base = LaneTable<V, BlockIQ2_K, false>;
  using typename Base::Vec, typename Base::RowPtr;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec head = V::load(rows, offset);
    s[0] = V::sub16(Base::template nibbles<4>(head), V::splat16(8));
    s[1] = V::sub16(Base::template nibbles<8>(head), V::splat16(8));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = Base::shifts(rows, offset);
    two_bits<V>(rows, offset + offsetof(BlockIQ2_K, q),
                [&](int half, int j, Vec a, Vec b) CRIA_INLINE {
                  const int sub = 4 * half + j;
                  f(sub, Base::shifted(Base::value(a), shifts, 2 * sub),
                    Base::shifted(Base::value(b), shifts, 2 * sub + 1));
                });
  }
};

template <class V>
struct LaneType<V, DType::IQ3_K> : LaneTable<V, BlockIQ3_K, true> {
  using Base = LaneTable<V, BlockIQ3_K, true>;
  using typename Base::Vec, typename Base::RowPtr;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec head = V::load(rows, offset);
    s[0] = negated(Base::template nibbles<6>(head), Base::template bits<4>(head));
    s[1] = negated(Base::template nibbles<10>(head), Base::template bits<5>(head));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = Base::shifts(rows, offset);
    three_bits<V>(rows, offset + offsetof(BlockIQ3_K, lo), offset + offsetof(BlockIQ3_K, hi),
                  [&](int j, Vec a, Vec b) CRIA_INLINE {
                    f(j, Base::shifted(Base::value(a), shifts, 2 * j),
                      Base::shifted(Base::value(b), shifts, 2 * j + 1));
                  });
  }

 private:
  /// 2n + 1, or its negative where bit 8 says so.
  static Vec negated(Vec n, Vec bit) {
    const Vec sign = V::sub16(V::splat16(1), V::template shr16<7>(bit));
    return V::mul16(V::add16(V::add16(n, n), V::splat16(1)), sign);
  }
};

template <class V>
struct LaneType<V, DType::IQ4_K> : LaneTable<V, BlockIQ4_K, true> {
  using Base = LaneTable<V, BlockIQ4_K, true>;
  using typename Base::Vec, typename Base::RowPtr;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    Base::six_bit_scales(rows, offset, s);
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = Base::shifts(rows, offset);
    unroll<8>([&](auto j) CRIA_INLINE {
      const Iq4Nibbles<V> q(rows, offset + offsetof(BlockIQ4_K, lo) + 16 * j);
      f(j, Base::shifted(q.low, shifts, 2 * j), Base::shifted(q.high, shifts, 2 * j + 1));
    });
  }
};

/// f(j, first nibbles, second, the vectors of their top bits) for each 32 of a block whose nibbles
/// lie as in Q5_K.
template <class V, class F>
CRIA_INLINE inline void nibbles_of_64(typename V::RowPtr rows, std::size_t lo, F&& f) {
  unroll<4>([&](auto j) CRIA_INLINE {
    const Nibbles<V> a(rows, lo + 32 * j), b(rows, lo + 32 * j + 16);
    f(std::integral_constant<int, 2 * j>{}, a.low, b.low);
    f(std::integral_constant<int, 2 * j + 1>{}, a.high, b.high);
  });
}

template <class V>
struct LaneType<V, DType::IQ5_K> : LaneTable<V, BlockIQ5_K, true> {
  using Base = LaneTable<V, BlockIQ5_K, true>;
  using typename Base::Vec, typename Base::RowPtr;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    Base::six_bit_scales(rows, offset, s);
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = Base::shifts(rows, offset);
    const Vec top0 = V::load(rows, offset + offsetof(BlockIQ5_K, hi));
    const Vec top1 = V::load(rows, offset + offsetof(BlockIQ5_K, hi) + 16);
    nibbles_of_64<V>(rows, offset + offsetof(BlockIQ5_K, lo),
                     [&](auto j, Vec a, Vec b) CRIA_INLINE {
                       f(j, Base::shifted(Base::template value_of_32<j>(a, top0), shifts, 2 * j),
                         Base::shifted(Base::template value_of_32<j>(b, top1), shifts, 2 * j + 1));
                     });
  }
};

template <class V>
struct LaneType<V, DType::IQ6_K> : LaneTable<V, BlockIQ6_K, true> {
  using Base = LaneTable<V, BlockIQ6_K, true>;
  using typename Base::Vec, typename Base::RowPtr;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec bytes = V::load(rows, offset + offsetof(BlockIQ6_K, scales));
    s[0] = V::widen_low(bytes);
    s[1] = V::widen_high(bytes);
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = Base::shifts(rows, offset);
    nibbles_of_64<V>(
        rows, offset + offsetof(BlockIQ6_K, lo), [&](auto j, Vec a, Vec b) CRIA_INLINE {
          constexpr std::size_t kTop = offsetof(BlockIQ6_K, hi) + 32 * (j / 4);
          f(j, Base::shifted(value<j % 4>(a, V::load(rows, offset + kTop)), shifts, 2 * j),
            Base::shifted(value<j % 4>(b, V::load(rows, offset + kTop + 16)), shifts, 2 * j + 1));
        });
  }

 private:
  /// The value of six bits: a nibble, and bits 2k and 2k + 1 of top.
  template <int k>
  static Vec value(Vec nibble, Vec top) {
    const Vec low = Base::template value_of_32<2 * k>(nibble, top);
    const Vec high = V::add_where(
        V::lookup(V::same(&kTableLane<kIq6Values, Base::kZero, 32>), nibble), top,
        V::splat8(1 << (2 * k)), V::lookup(V::same(&kTableLane<kIq6Values, 0, 48, true>), nibble));
    return V::add_where(low, top, V::splat8(2 << (2 * k)), V::sub8(high, low));
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
