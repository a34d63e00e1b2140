// IQ4_NL, IQ4_XS, IQ4_KS and IQ4_KSS in lanes.
#pragma once

#include "kernels/formats/iq4.h"
#include "kernels/lanes/blocks32.h"
#include "kernels/lanes/k.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Nibbles that are indices of sixteen values.
template <class V>
struct Iq4Nibbles {
  static constexpr LaneConstant<std::uint8_t> kBiased = [] {
    LaneConstant<std::uint8_t> t{};
    for (int i = 0; i < 16; ++i) t.at[i] = static_cast<std::uint8_t>(kIq4Values[i] + V::kBias);
    return t;
  }();
  typename V::Vec low, high;
  Iq4Nibbles(typename V::RowPtr rows, std::size_t offset) {
    const Nibbles<V> q(rows, offset);
    const auto values = V::same(&kBiased);
    low = V::lookup(values, q.low);
    high = V::lookup(values, q.high);
  }
};

template <class V>
struct LaneType<V, DType::IQ4_NL> : LaneBlock32<V, BlockIQ4_NL, false> {
  static constexpr bool kFull = true, kBytewise = true;
  static constexpr int kZero = V::kBias, kMax = 255;
  template <class F>
  CRIA_INLINE static void weights(typename V::RowPtr rows, std::size_t offset, F&& f) {
    const Iq4Nibbles<V> q(rows, offset + offsetof(BlockIQ4_NL, lo));
    f(0, q.low, q.high);
  }
};

/// IQ4_NL's values with 6-bit scales; the head holds d, scales_hi, scales_lo.
template <class V>
struct LaneType<V, DType::IQ4_XS> : LaneBlock256<V, BlockIQ4_XS, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static constexpr bool kFull = true, kBytewise = true;
  static constexpr int kZero = V::kBias, kMax = 255;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec head = V::load(rows, offset);
    const Vec low = V::mul16(V::lookup(head, V::same(&kLowBytes)), V::same(&kLowShift));
    const Vec top = V::mul16(V::lookup(head, V::same(&kTopBytes)), V::same(&kTopShift));
    s[0] = V::sub16(V::bit_or(V::bit_and(V::template shr16<4>(low), V::splat16(15)),
                              V::bit_and(V::template shr16<2>(top), V::splat16(0x30))),
                    V::splat16(32));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    unroll<8>([&](int j) CRIA_INLINE {
      const Iq4Nibbles<V> q(rows, offset + offsetof(BlockIQ4_XS, lo) + 16 * j);
      f(j, q.low, q.high);
    });
  }

 private:
  static constexpr std::uint8_t kNo = 0x80;
  static constexpr LaneConstant<std::uint8_t> kLowBytes = {{4, kNo, 4, kNo, 5, kNo, 5, kNo, 6, kNo,
                                                            6, kNo, 7, kNo, 7, kNo}},
                                              kTopBytes = {{2, kNo, 2, kNo, 2, kNo, 2, kNo, 3, kNo,
                                                            3, kNo, 3, kNo, 3, kNo}};
  static constexpr LaneConstant<std::uint16_t> kLowShift = {{16, 1, 16, 1, 16, 1, 16, 1}},
                                               kTopShift = {{64, 16, 4, 1, 64, 16, 4, 1}};
};

/// Eight bytes of odd scales, whose lowest bits say what is shifted.
template <class V>
struct LaneOddScales {
  using Vec = typename V::Vec;
  static Vec scales(Vec bytes) {
    return V::sub16(V::bit_and(V::zip_low8(bytes, V::zero()), V::splat16(254)), V::splat16(127));
  }
  /// The shift of sub-block j of a type whose shift is a power of two.
  template <class Block>
  static Vec shift(Vec bytes, int j) {
    constexpr int kBit = std::countr_zero(static_cast<unsigned>(Block::kShift));
    static_assert(1 << kBit == Block::kShift);
    return V::lookup(V::template take<-kBit>(bytes, V::splat8(Block::kShift)), V::splat8(j));
  }
};

/// The first eight bytes of a block are scales.
template <class V>
struct LaneType<V, DType::IQ4_KS> : LaneRowScale<V, DType::IQ4_KS> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ4_KS, scales) == 0);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    s[0] = LaneOddScales<V>::scales(V::load(rows, offset));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec head = V::load(rows, offset);
    unroll<8>([&](int j) CRIA_INLINE {
      const Iq4Nibbles<V> q(rows, offset + offsetof(BlockIQ4_KS, lo) + 16 * j);
      const Vec shift = LaneOddScales<V>::template shift<BlockIQ4_KS>(head, j);
      f(j, V::add8(q.low, shift), V::add8(q.high, shift));
    });
  }
};

/// The scales are bits of the words of nibbles: bit 0 of word k of sub-block j is bit k of scale j.
template <class V>
struct LaneType<V, DType::IQ4_KSS> : LaneRowScale<V, DType::IQ4_KSS> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    s[0] = LaneOddScales<V>::scales(scale_bytes(rows, offset));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec bytes = scale_bytes(rows, offset), values = V::same(&Iq4Nibbles<V>::kBiased);
    unroll<8>([&](int j) CRIA_INLINE {
      const Vec words = V::bit_and(V::load(rows, offset + 16 * j), V::splat16(0xFFFE));
      const Vec nibbles = V::bit_xor(words, V::template shr16<1>(words)), mask = V::splat8(15);
      const Vec shift = LaneOddScales<V>::template shift<BlockIQ4_KSS>(bytes, j);
      f(j, V::add8(V::lookup(values, V::template take<0>(nibbles, mask)), shift),
        V::add8(V::lookup(values, V::template take<4>(nibbles, mask)), shift));
    });
  }

 private:
  /// The scales as in IQ4_KS: an 8×8 matrix of bits, transposed.
  CRIA_INLINE static Vec scale_bytes(RowPtr rows, std::size_t offset) {
    Vec bits = V::zero(), bytes = V::zero();
    unroll<8>([&](auto j) CRIA_INLINE {
      bits =
          V::bit_or(bits, V::template take<-j>(V::load(rows, offset + 16 * j), V::splat16(1 << j)));
    });
    unroll<8>([&](int k) CRIA_INLINE {
      bytes = V::add_where(bytes, V::lookup(bits, V::splat8(2 * k)), V::same(&kBitOfByte),
                           V::splat8(1 << k));
    });
    return bytes;
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
