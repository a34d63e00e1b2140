// IQ1_KT … IQ4_KT in lanes: sixteen numbers of the sequences by four multiplications.
#pragma once

#include "kernels/formats/trellis.h"
#include "kernels/lanes/ik.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Factors of the k-th of four numbers in each int32 of a lane: four groups of four values each, or
/// two of eight, in two halves.
template <int group>
inline constexpr auto kTrellisLanes = [] {
  std::array<LaneConstant<std::uint32_t>, 4> lanes{};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t i = 0; i < 4; ++i)
      lanes[k].at[i] = kTrellisFactors[group == 8 ? k + 4 * (i % 2) : k];
  return lanes;
}();

/// Byte indices that move the codes of sixteen values from eight int16 to the int32.
template <int group>
inline constexpr auto kTrellisCodes = [] {
  constexpr std::uint8_t kNo = 0x80;
  std::array<LaneConstant<std::uint8_t>, group / 2> from{};
  for (std::size_t n = 0; n < from.size(); ++n)
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t code = group == 8 ? 2 * n + i / 2 : 4 * n + i;
      const auto byte = static_cast<std::uint8_t>(2 * code);
      from[n].at[4 * i] = byte;
      from[n].at[4 * i + 1] = static_cast<std::uint8_t>(byte + 1);
      from[n].at[4 * i + 2] = from[n].at[4 * i + 3] = kNo;
    }
  return from;
}();

template <class V, DType type, int group>
struct LaneTrellis : LaneRowScale<V, type>, LaneHead<V> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;

 protected:
  /// The sixteen values that follow from the n-th codes of eight int16, plus 126. start: of code 0.
  CRIA_INLINE static Vec values(Vec codes, int n, Vec start) {
    const Vec from = V::add32(
        V::lookup(codes, V::same(&kTrellisCodes<group>[static_cast<std::size_t>(n)])), start);
    Vec sums = V::zero();
    unroll<4>([&](auto i) CRIA_INLINE {
      constexpr std::size_t k = 3 - i;  // the last first: it ends in the top bytes
      const Vec numbers = V::mul32(from, V::same(&kTrellisLanes<group>[k]));
      sums = V::sum_bytes(i == 0 ? sums : V::template shl32<8>(sums),
                          V::bit_and(numbers, V::splat8(0x3F)));
    });
    return sums;
  }
  /// The same as weights.
  CRIA_INLINE static Vec weights_of(Vec codes, int n, Vec start) {
    return V::add8(values(codes, n, start), V::splat8(V::kBias - kTrellisMean));
  }
  static Vec start() { return V::same(&kStart); }
  /// kIq4Values of eight int16.
  static Vec named_scales(Vec codes) {
    return V::sub16(V::lookup(V::same(&kTableLane<kIq4Values, -kIq4Values.front(), 0>), codes),
                    V::splat16(-kIq4Values.front()));
  }

 private:
  static constexpr LaneConstant<std::uint32_t> kStart = {
      {kTrellisStart, kTrellisStart, kTrellisStart, kTrellisStart}};
};

template <class V>
struct LaneType<V, DType::IQ1_KT> : LaneTrellis<V, DType::IQ1_KT, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ1_KT, scales) == 0);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec low = V::template take<0>(V::load(rows, offset), V::splat8(15));
    s[0] = LaneType::named_scales(V::zip_low8(low, V::zero()));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec head = V::load(rows, offset), hi = V::load(rows, offset + offsetof(BlockIQ1_KT, hi));
    unroll<2>([&](auto half) CRIA_INLINE {
      const Vec low = V::load(rows, offset + offsetof(BlockIQ1_KT, lo) + 16 * half);
      const Vec top = V::add_where(V::template take<4 * half>(hi, V::splat8(15)),
                                   V::lookup(head, V::same(&kScaleOfCode<4 * half>)),
                                   V::same(&kTopBit), V::splat8(16));
      const Vec codes[2] = {V::zip_low8(low, top), V::zip_high8(low, top)};
      unroll<4>([&](int i) CRIA_INLINE {
        const auto w = [&](int n) CRIA_INLINE {
          return LaneType::weights_of(codes[i / 2], 2 * (i % 2) + n, LaneType::start());
        };
        f(4 * half + i, w(0), w(1));
      });
    });
  }

 private:
  template <std::uint8_t first>
  static constexpr LaneConstant<std::uint8_t> kScaleOfCode = {
      {first, first, first, first, first + 1, first + 1, first + 1, first + 1, first + 2, first + 2,
       first + 2, first + 2, first + 3, first + 3, first + 3, first + 3}};
  static constexpr LaneConstant<std::uint8_t> kTopBit = {
      {16, 32, 64, 128, 16, 32, 64, 128, 16, 32, 64, 128, 16, 32, 64, 128}};
};

template <class V>
struct LaneType<V, DType::IQ2_KT> : LaneTrellis<V, DType::IQ2_KT, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ2_KT, scales) == 0);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    s[0] = LaneType::named_scales(LaneType::template halved_nibbles<0>(V::load(rows, offset)));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    unroll<8>([&](int j) CRIA_INLINE {
      const Vec codes = V::load(rows, offset + offsetof(BlockIQ2_KT, codes) + j / 2 * 16);
      const auto w = [&](int n) CRIA_INLINE {
        return LaneType::weights_of(codes, 2 * (j % 2) + n, LaneType::start());
      };
      f(j, w(0), w(1));
    });
  }
};

template <class V>
struct LaneType<V, DType::IQ3_KT> : LaneTrellis<V, DType::IQ3_KT, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ3_KT, scales) == 0);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    s[0] = LaneType::template halved_nibbles<0>(V::load(rows, offset));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec signs[2] = {V::load(rows, offset + offsetof(BlockIQ3_KT, signs)),
                          V::load(rows, offset + offsetof(BlockIQ3_KT, signs) + 16)};
    unroll<8>([&](auto j) CRIA_INLINE {
      const Vec codes = V::load(rows, offset + offsetof(BlockIQ3_KT, codes) + j / 2 * 16);
      const auto w = [&](int n) CRIA_INLINE {
        const Vec size = V::abs8(V::sub8(
            LaneType::values(codes, 2 * (j % 2) + n, LaneType::start()), V::splat8(kTrellisMean)));
        return V::add_where(V::add8(size, V::splat8(V::kBias)), signs[n], V::splat8(1 << j),
                            V::sub8(V::zero(), V::add8(size, size)));
      };
      f(j, w(0), w(1));
    });
  }
};

/// Codes of four values, whose top bits lie with the scales in eight int32.
template <class V>
struct LaneType<V, DType::IQ4_KT> : LaneTrellis<V, DType::IQ4_KT, 4> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ4_KT, head) == 0);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec bytes = V::bit_or(V::lookup(V::load(rows, offset), V::same(&kFirstBytes)),
                                V::lookup(V::load(rows, offset + 16), V::same(&kSecondBytes)));
    s[0] = V::sub16(V::bit_and(V::template shr16<1>(bytes), V::splat16(127)), V::splat16(64));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    unroll<8>([&](auto j) CRIA_INLINE {
      const Vec head = V::load(rows, offset + j / 4 * 16);
      const Vec low = V::load(rows, offset + offsetof(BlockIQ4_KT, lo) + j / 2 * 16);
      const Vec middle = V::template take<4 * (j / 4)>(
          V::load(rows, offset + offsetof(BlockIQ4_KT, hi) + j % 4 / 2 * 16), V::splat8(15));
      const Vec bits =
          V::mul16(V::lookup(head, V::same(&kTopBytes<4 * (j % 4)>)), V::same(&kToTop));
      const Vec top = V::bit_and(V::template shr16<1>(bits), V::splat16(0x7000));
      const Vec codes =
          V::bit_or(j % 2 == 0 ? V::zip_low8(low, middle) : V::zip_high8(low, middle), top);
      const Vec start =
          V::bit_or(LaneType::start(),
                    V::template take<-7>(V::lookup(head, V::same(&kLaterByte<4 * (j % 4)>)),
                                         V::splat16(-32768)));
      f(j, LaneType::weights_of(codes, 0, start), LaneType::weights_of(codes, 1, start));
    });
  }

 private:
  static constexpr std::uint8_t kNo = 0x80;
  static constexpr LaneConstant<std::uint8_t> kFirstBytes = {{0, kNo, 4, kNo, 8, kNo, 12, kNo, kNo,
                                                              kNo, kNo, kNo, kNo, kNo, kNo, kNo}},
                                              kSecondBytes = {{kNo, kNo, kNo, kNo, kNo, kNo, kNo,
                                                               kNo, 0, kNo, 4, kNo, 8, kNo, 12,
                                                               kNo}};
  /// The byte of each code where its three bits begin, and the next; factors that bring them to the
  /// top.
  template <std::uint8_t at>
  static constexpr LaneConstant<std::uint8_t> kTopBytes = {
      {at + 1, at + 2, at + 1, at + 2, at + 1, at + 2, at + 2, at + 3, at + 2, at + 3, at + 2,
       at + 3, at + 3, kNo, at + 3, kNo}};
  static constexpr LaneConstant<std::uint16_t> kToTop = {
      {1 << 13, 1 << 10, 1 << 7, 1 << 12, 1 << 9, 1 << 6, 1 << 11, 1 << 8}};
  /// Its lowest bit, in the second byte of each int32.
  template <std::uint8_t at>
  static constexpr LaneConstant<std::uint8_t> kLaterByte = {
      {kNo, at, kNo, kNo, kNo, at, kNo, kNo, kNo, at, kNo, kNo, kNo, at, kNo, kNo}};
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
