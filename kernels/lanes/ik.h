// IQ2_K … IQ6_K and IQ5_KS in lanes: tables of up to 64 values, sixteen looked up at a time.
#pragma once

#include "kernels/formats/ik.h"
#include "kernels/isa/namespace.h"
#include "kernels/lanes/iq4.h"
#include "kernels/lanes/k.h"

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

/// The types whose blocks begin with d and extra.
template <class V, class Block, bool full>
struct LaneTable : LaneBlock256<V, Block, 16> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(Block, d) == 0 && offsetof(Block, extra) == 2);
  static constexpr bool kFull = full;  // also needed for negative scales and weights above 64
  static constexpr int kZero = full ? V::kBias : -Block::kValues.front();
  static constexpr int kMax = full ? 255 : kZero + Block::kValues.back() + Block::kShift;

 protected:
  static constexpr std::uint8_t kNo = 0x80;
  /// Byte j of every lane: the shift of sub-block j.
  static Vec shifts(RowPtr rows, std::size_t offset) {
    const Vec extra = V::lookup(V::load(rows, offset), V::same(&kSpread<2>));
    return V::add_where(V::zero(), extra, V::same(&kBitOfByte), V::splat8(Block::kShift));
  }
  static Vec shifted(Vec w, Vec shifts, int j) {
    return V::add8(w, V::lookup(shifts, V::splat8(j)));
  }
  static Vec value(Vec code) {
    return V::lookup(V::same(&kTableLane<Block::kValues, kZero, 0>), code);
  }
  /// The value of a code of five bits: a nibble, and bit `bit` of top.
  template <int bit>
  static Vec value_of_32(Vec nibble, Vec top) {
    return V::add_where(value(nibble), top, V::splat8(1 << bit),
                        V::lookup(V::same(&kTableLane<Block::kValues, 0, 16, true>), nibble));
  }
  /// Eight nibbles from byte `first` of the head on, as int16.
  template <std::uint8_t first>
  static Vec nibbles(Vec head) {
    static constexpr LaneConstant<std::uint8_t> kBytes = {
        {first, kNo, first, kNo, first + 1, kNo, first + 1, kNo, first + 2, kNo, first + 2, kNo,
         first + 3, kNo, first + 3, kNo}};
    static constexpr LaneConstant<std::uint16_t> kFactors = {{16, 1, 16, 1, 16, 1, 16, 1}};
    return V::bit_and(
        V::template shr16<4>(V::mul16(V::lookup(head, V::same(&kBytes)), V::same(&kFactors))),
        V::splat16(15));
  }
  /// Eight pairs of bits from byte `first` of the head on, as bits 4 and 5 of int16.
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
  /// The scales of IQ4_K and IQ5_K.
  static void six_bit_scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec head = V::load(rows, offset);
    s[0] = V::sub16(V::bit_or(nibbles<8>(head), top_bits<4>(head)), V::splat16(32));
    s[1] = V::sub16(V::bit_or(nibbles<12>(head), top_bits<6>(head)), V::splat16(32));
  }
};

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
    s[0] = negated<4>(Base::template nibbles<6>(head), head);
    s[1] = negated<5>(Base::template nibbles<10>(head), head);
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = Base::shifts(rows, offset);
    const Vec top0 = V::load(rows, offset + offsetof(BlockIQ3_K, hi));
    const Vec top1 = V::load(rows, offset + offsetof(BlockIQ3_K, hi) + 16);
    two_bits<V>(rows, offset + offsetof(BlockIQ3_K, lo),
                [&](int half, auto j, Vec a, Vec b) CRIA_INLINE {
                  constexpr int kBit = j;
                  const int sub = 4 * half + kBit;
                  const auto w = [&](Vec low, Vec top, int at) CRIA_INLINE {
                    const Vec bit = half == 0 ? V::template take<kBit - 2>(top, V::splat8(4))
                                              : V::template take<kBit + 2>(top, V::splat8(4));
                    return Base::shifted(Base::value(V::bit_or(low, bit)), shifts, at);
                  };
                  f(sub, w(a, top0, 2 * sub), w(b, top1, 2 * sub + 1));
                });
  }

 private:
  /// 2n + 1, or its negative where a bit of byte `byte` of the head says so.
  template <std::uint8_t byte>
  static Vec negated(Vec n, Vec head) {
    static constexpr std::uint8_t kNo = 0x80;
    static constexpr LaneConstant<std::uint8_t> kBytes = {
        {byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo, byte, kNo}};
    static constexpr LaneConstant<std::uint16_t> kToBit8 = {{256, 128, 64, 32, 16, 8, 4, 2}};
    const Vec bit =
        V::bit_and(V::mul16(V::lookup(head, V::same(&kBytes)), V::same(&kToBit8)), V::splat16(256));
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

template <class V>
struct LaneType<V, DType::IQ5_KS> : LaneBlock256<V, BlockIQ5_KS, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Ks = LaneType<V, DType::IQ4_KS>;
  static constexpr bool kFull = true;
  static constexpr int kZero = V::kBias, kMax = 255;
  static_assert(offsetof(BlockIQ5_KS, scales) == 0);
  static auto d(RowPtr rows, std::size_t offset) { return Ks::d(rows, offset); }
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) { Ks::scales(rows, offset, s); }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    static_assert(BlockIQ5_KS::kShift == 2);
    const Vec shifts = V::template take<-1>(V::load(rows, offset), V::splat8(2));
    const Vec top0 = V::load(rows, offset + offsetof(BlockIQ5_KS, hi));
    const Vec top1 = V::load(rows, offset + offsetof(BlockIQ5_KS, hi) + 16);
    nibbles_of_64<V>(rows, offset + offsetof(BlockIQ5_KS, lo),
                     [&](auto j, Vec a, Vec b) CRIA_INLINE {
                       const Vec shift = V::lookup(shifts, V::splat8(j));
                       f(j, V::add8(value<j>(a, top0), shift), V::add8(value<j>(b, top1), shift));
                     });
  }

 private:
  template <int bit>
  static Vec value(Vec nibble, Vec top) {
    return V::add_where(V::lookup(V::same(&kTableLane<kIq5Values, kZero, 0>), nibble), top,
                        V::splat8(1 << bit),
                        V::lookup(V::same(&kTableLane<kIq5Values, 0, 16, true>), nibble));
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
