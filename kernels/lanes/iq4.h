// IQ4_NL, IQ4_XS and IQ4_KS in lanes.
#pragma once

#include "kernels/formats/iq4.h"
#include "kernels/isa/namespace.h"
#include "kernels/lanes/blocks32.h"
#include "kernels/lanes/k.h"

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
    unroll<8>([&](auto j) CRIA_INLINE {
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

/// d is the row's; the first eight bytes of a block are scales, their lowest bits say what is
/// shifted.
template <class V>
struct LaneType<V, DType::IQ4_KS> : LaneBlock256<V, BlockIQ4_KS, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static constexpr bool kFull = true;
  static constexpr int kZero = V::kBias, kMax = 255;
  static_assert(offsetof(BlockIQ4_KS, scales) == 0);
  static auto d(RowPtr rows, std::size_t /*offset*/) { return V::load_f32(rows, 0); }
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec bytes = V::zip_low8(V::load(rows, offset), V::zero());
    s[0] = V::sub16(V::bit_and(bytes, V::splat16(254)), V::splat16(127));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    static_assert(kIq4Shift == 4);
    const Vec shifts = V::template take<-2>(V::load(rows, offset), V::splat8(kIq4Shift));
    unroll<8>([&](auto j) CRIA_INLINE {
      const Iq4Nibbles<V> q(rows, offset + offsetof(BlockIQ4_KS, lo) + 16 * j);
      const Vec shift = V::lookup(shifts, V::splat8(j));
      f(j, V::add8(q.low, shift), V::add8(q.high, shift));
    });
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
