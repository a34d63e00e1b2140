// IQ2_KS, IQ3_KS, IQ2_KL, IQ5_KS and IQ2_BN in lanes.
#pragma once

#include "kernels/formats/ik_row.h"
#include "kernels/lanes/ik.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <class V>
struct LaneType<V, DType::IQ5_KS> : LaneRowScale<V, DType::IQ5_KS>,
                                    LaneValues<V, kIq5Values, V::kBias> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ5_KS, scales) == 0);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    s[0] = LaneOddScales<V>::scales(V::load(rows, offset));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec head = V::load(rows, offset);
    const Vec top0 = V::load(rows, offset + offsetof(BlockIQ5_KS, hi));
    const Vec top1 = V::load(rows, offset + offsetof(BlockIQ5_KS, hi) + 16);
    nibbles_of_64<V>(rows, offset + offsetof(BlockIQ5_KS, lo),
                     [&](auto j, Vec a, Vec b) CRIA_INLINE {
                       const Vec shift = LaneOddScales<V>::template shift<BlockIQ5_KS>(head, j);
                       f(j, V::add8(LaneType::template value_of_32<j>(a, top0), shift),
                         V::add8(LaneType::template value_of_32<j>(b, top1), shift));
                     });
  }
};

template <class V>
struct LaneType<V, DType::IQ2_KS>
    : LaneRowScale<V, DType::IQ2_KS>, LaneHead<V>, LaneValues<V, kIq2Values, V::kBias> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ2_KS, scales_hi) == 1 && offsetof(BlockIQ2_KS, scales) == 2);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec head = V::load(rows, offset);
    s[0] = LaneType::template five_bit_scales<1>(head, LaneType::template nibbles<2>(head));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = LaneType::template where_bits<0>(V::load(rows, offset), BlockIQ2_KS::kShift);
    two_bits<V>(rows, offset + offsetof(BlockIQ2_KS, q),
                [&](int half, int j, Vec a, Vec b) CRIA_INLINE {
                  const int sub = 4 * half + j;
                  f(sub, lane_shifted<V>(LaneType::value(a), shifts, sub),
                    lane_shifted<V>(LaneType::value(b), shifts, sub));
                });
  }
};

template <class V>
struct LaneType<V, DType::IQ3_KS>
    : LaneRowScale<V, DType::IQ3_KS>, LaneHead<V>, LaneValues<V, kIq3Values, V::kBias> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ3_KS, shifts) == 1 && offsetof(BlockIQ3_KS, scales) == 2);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec head = V::load(rows, offset);
    s[0] = LaneType::template five_bit_scales<0>(head, LaneType::template halved_nibbles<2>(head));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec shifts = LaneType::template where_bits<1>(V::load(rows, offset), BlockIQ3_KS::kShift);
    three_bits<V>(rows, offset + offsetof(BlockIQ3_KS, lo), offset + offsetof(BlockIQ3_KS, hi),
                  [&](int j, Vec a, Vec b) CRIA_INLINE {
                    f(j, lane_shifted<V>(LaneType::value(a), shifts, j),
                      lane_shifted<V>(LaneType::value(b), shifts, j));
                  });
  }
};

/// Codes of pairs, whose first and second values are looked up apart.
template <class V>
struct LaneType<V, DType::IQ2_KL> : LaneRowScale<V, DType::IQ2_KL>, LaneHead<V> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static_assert(offsetof(BlockIQ2_KL, scales_hi) == 0 && offsetof(BlockIQ2_KL, scales) == 2);
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec head = V::load(rows, offset);
    s[0] = V::sub16(
        V::bit_or(LaneType::template halved_nibbles<2>(head), LaneType::template top_bits<0>(head)),
        V::splat16(32));
  }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const Vec top = V::load(rows, offset + offsetof(BlockIQ2_KL, hi));
    unroll<4>([&](auto j) CRIA_INLINE {
      const Nibbles<V> codes(rows, offset + offsetof(BlockIQ2_KL, lo) + 16 * j);
      give<2 * j>(codes.low, top, f);
      give<2 * j + 1>(codes.high, top, f);
    });
  }

 private:
  template <int divisor>
  static constexpr std::array<std::int8_t, 32> kPart = [] {
    std::array<std::int8_t, 32> part{};
    for (std::size_t i = 0; i < part.size(); ++i)
      part[i] = kIq3Values[kIq2klPairs[i] / divisor % 8U];
    return part;
  }();
  template <int j, class F>
  CRIA_INLINE static void give(Vec codes, Vec top, F&& f) {
    const Vec first = LaneValues<V, kPart<8>, V::kBias>::template value_of_32<j>(codes, top),
              second = LaneValues<V, kPart<1>, V::kBias>::template value_of_32<j>(codes, top);
    f(j, V::zip_low8(first, second), V::zip_high8(first, second));
  }
};

template <class V>
struct LaneType<V, DType::IQ2_BN> : LaneBlock32<V, BlockIQ2_BN, false> {
  using RowPtr = typename V::RowPtr;
  static constexpr bool kBytewise = true;
  static constexpr int kZero = 1, kMax = 3;
  static auto d(RowPtr rows, std::size_t /*offset*/) { return V::load_f32(rows, 0); }
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    const auto q = V::load(rows, offset), three = V::splat8(3);
    f(0, V::template take<0>(q, three), V::template take<2>(q, three));
    f(1, V::template take<4>(q, three), V::template take<6>(q, three));
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
