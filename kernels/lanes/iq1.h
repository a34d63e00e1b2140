// IQ1 in lanes: codebooks of -1, 0 and 1, whose entries are loaded.
#pragma once

#include "kernels/formats/ik_row.h"
#include "kernels/formats/iq.h"
#include "kernels/lanes/ik.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The codebook of IQ1, by eight int16 indices of each lane: f(j, w0, w1) for j = 0, 1.
template <class V, class Vec, class F>
CRIA_INLINE inline void look_up_int16(Vec index, F&& f) {
  typename V::Indices indices;
  indices.take(index);
  const auto entries = [&](int i) CRIA_INLINE {
    return V::entries(kIq1Grid.data(),
                      [&](int lane, int n) CRIA_INLINE { return indices.at(lane, 2 * i + n); });
  };
  unroll<2>([&](auto j) CRIA_INLINE { f(j, entries(2 * j), entries(2 * j + 1)); });
}

/// Factors that move the k-th three bits of a word to bits 9…11, for k = 0 … 3, 0 … 3.
inline constexpr LaneConstant<std::uint16_t> kThreeBitsTo9 = {{512, 64, 8, 1, 512, 64, 8, 1}};

/// Base of the IQ1 types: eight times an entry of -1, 0, 1, plus or minus one, plus kZero.
template <class V, class Type, class Block, int scale_count>
struct LaneTernaryCodebook : LaneBlock256<V, Block, scale_count> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static constexpr int kZero = 9, kMax = 18;

  /// Type::top(rows, offset, v): for eight groups of each lane as int16, the top bits of the index
  /// in bits 8…10, the sign of the offset in bit 11.
  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    each_part<kLongCode<V>, 4>([&](auto v) CRIA_INLINE {
      const Vec top = Type::top(rows, offset, v);
      const Vec wide =
          V::zip_low8(V::load(rows, offset + offsetof(Block, index) + 8 * v), V::zero());
      const Vec index = V::bit_or(wide, V::bit_and(top, V::splat16(0x700)));
      const Vec offsets = V::sub8(V::splat8(kZero + 1), V::template take<2>(top, V::splat8(2)));
      look_up_int16<V>(index, [&](auto j, Vec w0, Vec w1) CRIA_INLINE {
        f(2 * v + j, V::add8(w0, V::lookup(offsets, V::same(&kHighBytes<8 * j>))),
          V::add8(w1, V::lookup(offsets, V::same(&kHighBytes<8 * j + 4>))));
      });
    });
  }

 private:
  /// The high bytes of two int16, eight times each.
  template <int first>
  static constexpr LaneConstant<std::uint8_t> kHighBytes = {
      {first + 1, first + 1, first + 1, first + 1, first + 1, first + 1, first + 1, first + 1,
       first + 3, first + 3, first + 3, first + 3, first + 3, first + 3, first + 3, first + 3}};
};

template <class V>
struct LaneType<V, DType::IQ1_S>
    : LaneTernaryCodebook<V, LaneType<V, DType::IQ1_S>, BlockIQ1_S, 8> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static auto d(RowPtr rows, std::size_t offset) {
    return V::mul(V::template load_f16<sizeof(BlockIQ1_S), offsetof(BlockIQ1_S, d)>(rows, offset),
                  V::splat_float(0.125F));
  }
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    const Vec bits = V::bit_and(
        V::template shr16<11>(V::load(rows, offset + offsetof(BlockIQ1_S, hi))), V::splat16(14));
    s[0] = V::bit_or(bits, V::splat16(1));
  }
  static Vec top(RowPtr rows, std::size_t offset, int v) {  // sub-blocks 2v and 2v + 1
    const Vec hi = V::load(rows, offset + offsetof(BlockIQ1_S, hi));
    const Vec word = V::lookup(hi, V::add8(V::same(&kInt16), V::splat8(4 * v)));
    const Vec index = V::template shr16<1>(V::mul16(word, V::same(&kThreeBitsTo9)));
    return V::bit_or(V::bit_and(index, V::splat16(0x700)),
                     V::bit_and(V::template shr16<4>(word), V::splat16(0x800)));
  }

 private:
  static constexpr LaneConstant<std::uint8_t> kInt16 = {
      {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3}};
};

/// IQ1_M and IQ1_M_R1.
template <class V, DType type, class Block>
struct LaneIq1m : LaneTernaryCodebook<V, LaneType<V, type>, Block, 16> {
  using Vec = typename V::Vec;
  static Vec top(typename V::RowPtr rows, std::size_t offset, int v) {
    const Vec hi = V::load(rows, offset + offsetof(Block, hi));
    const Vec bytes = V::lookup(hi, V::add8(V::same(&kBytes4), V::splat8(4 * v)));
    return V::bit_and(V::mul16(V::bit_and(bytes, V::splat16(0xFF)), V::same(&kNibbleTo8)),
                      V::splat16(0xF00));
  }

 private:
  static constexpr LaneConstant<std::uint8_t> kBytes4 = {
      {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}};
  static constexpr LaneConstant<std::uint16_t> kNibbleTo8 = {{256, 16, 256, 16, 256, 16, 256, 16}};
};

template <class V>
struct LaneType<V, DType::IQ1_M_R1> : LaneIq1m<V, DType::IQ1_M_R1, BlockIQ1_M_R1>, LaneHead<V> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static auto d(RowPtr rows, std::size_t /*offset*/) {
    return V::mul(V::template load_f16<sizeof(BlockIQ1_M_R1), 0, false>(rows, 0),
                  V::splat_float(0.125F));
  }
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    static_assert(offsetof(BlockIQ1_M_R1, scales) == sizeof(BlockIQ1_M_R1) - 8);
    const Vec tail = V::load(rows, offset + sizeof(BlockIQ1_M_R1) - 16);
    s[0] = LaneHead<V>::template nibbles<8>(tail);
    s[1] = LaneHead<V>::template nibbles<12>(tail);
  }
};

template <class V>
struct LaneType<V, DType::IQ1_M> : LaneIq1m<V, DType::IQ1_M, BlockIQ1_M> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  /// The top nibbles of the four scale words are the f16.
  static auto d(RowPtr rows, std::size_t offset) {
    Vec bits[V::kPacks];
    for (std::size_t k = 0; k < V::kPacks; ++k) {
      const Vec tail = V::load(rows + k, offset + sizeof(BlockIQ1_M) - 16);
      const Vec nibbles = V::mul16(V::template shr16<12>(tail), V::same(&kEveryOtherTimes16));
      bits[k] = V::bit_or(V::lookup(nibbles, V::same(&kWords0And2)),
                          V::lookup(nibbles, V::same(&kWords1And3)));
    }
    return V::mul(V::template f16_of_lanes<0>(bits), V::splat_float(0.125F));
  }
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    static_assert(offsetof(BlockIQ1_M, scales) == sizeof(BlockIQ1_M) - 8);
    const Vec tail = V::load(rows, offset + sizeof(BlockIQ1_M) - 16);
    for (int i = 0; i < 2; ++i) {
      const Vec word = V::lookup(tail, V::add8(V::same(&kScaleWords), V::splat8(4 * i)));
      const Vec bits = V::template shr16<8>(V::mul16(word, V::same(&kThreeBitsTo9)));
      s[i] = V::bit_or(V::bit_and(bits, V::splat16(14)), V::splat16(1));
    }
  }

 private:
  static constexpr LaneConstant<std::uint8_t> kScaleWords = {
      {8, 9, 8, 9, 8, 9, 8, 9, 10, 11, 10, 11, 10, 11, 10, 11}};
  static constexpr std::uint8_t kNo = 0x80;
  static constexpr LaneConstant<std::uint8_t> kWords0And2 = {{8, 12, kNo, kNo, kNo, kNo, kNo, kNo,
                                                              kNo, kNo, kNo, kNo, kNo, kNo, kNo,
                                                              kNo}},
                                              kWords1And3 = {{10, 14, kNo, kNo, kNo, kNo, kNo, kNo,
                                                              kNo, kNo, kNo, kNo, kNo, kNo, kNo,
                                                              kNo}};
  static constexpr LaneConstant<std::uint16_t> kEveryOtherTimes16 = {{1, 16, 1, 16, 1, 16, 1, 16}};
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
