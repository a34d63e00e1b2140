// The K types on AVX2, a register of 32 columns at a time: see avx2_wide.h.
#pragma once

#include "kernels/gemv/avx2_row.h"
#include "kernels/lanes/k.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// A lookup in both halves.
CRIA_INLINE inline __m256i shuffle(__m256i v, const LaneConstant<std::uint8_t>& from) {
  return _mm256_shuffle_epi8(v, RowLanes<Avx2>::same(&from));
}
/// The words of every int32 in the other order.
CRIA_INLINE inline __m256i swap_int16(__m256i v) {
  static constexpr LaneConstant<std::uint8_t> kSwapped = {
      {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}};
  return shuffle(v, kSwapped);
}

/// In both halves the even words, then the odd ones.
inline constexpr LaneConstant<std::uint8_t> kEvenThenOddInt16 = {
    {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15}};

/// Sixteen words: the even ones, then the odd ones.
CRIA_INLINE inline __m256i even_then_odd(__m256i v) {
  return _mm256_permute4x64_epi64(shuffle(v, kEvenThenOddInt16), 0xD8);
}

/// Words, pairs or fours of them, of a and b in turn: each half's lower ones added to its upper
/// ones.
CRIA_INLINE inline __m256i add_int16(__m256i a, __m256i b) {
  return _mm256_add_epi16(_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
}
CRIA_INLINE inline __m256i add_pairs_int16(__m256i a, __m256i b) {
  return _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
CRIA_INLINE inline __m256i add_fours_int16(__m256i a, __m256i b) {
  return _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}

/// The f16 d and dmin of the eight rows, where they lie side by side at `offset`: d in the lower
/// half.
CRIA_INLINE inline __m256i ends_of_eight(const std::byte* const* rows, std::size_t offset) {
  return even_then_odd(RowLanes<Avx2>::load_u32(rows, offset));
}

template <int i>
using Number = std::integral_constant<int, i>;

/// Four two-bit numbers share a byte, and an int16 holds two columns. The lower two numbers are
/// multiplied in place: one in even int16, the other, four times too large, in odd int16; then with
/// the int16 swapped. So sums of 16 columns need half the additions across a register.
class RowTwoBits {
 public:
  CRIA_INLINE explicit RowTwoBits(const std::int8_t* q) {
    unroll<4>([&](int i) CRIA_INLINE {
      const __m256i a = load256(q + 64 * i), b = load256(q + 64 * i + 32);
      q_[i][0] = _mm256_blend_epi16(a, b, 0xAA);
      q_[i][1] = swap_int16(_mm256_blend_epi16(b, a, 0xAA));
    });
  }
  /// pair(i, v): sums of eight products of numbers 2i and 2i + 1 of 32 bytes, alternating, the
  /// latter four times too large. Returns even sixteens of columns, then odd sixteens.
  template <class F>
  CRIA_INLINE static __m256i sixteens(const std::uint8_t* q, F pair) {
    const __m256i first = load_once256(q), second = load_once256(q + 32);
    const __m256i a =
        add_pairs_int16(pair(Number<0>{}, first), pair(Number<1>{}, _mm256_srli_epi16(first, 4)));
    const __m256i b =
        add_pairs_int16(pair(Number<2>{}, second), pair(Number<3>{}, _mm256_srli_epi16(second, 4)));
    return add_fours_int16(a, b);
  }
  /// The result of pair() for weights w and weights with int16 swapped.
  [[nodiscard]] CRIA_INLINE __m256i products(int i, __m256i w, __m256i swapped) const {
    return _mm256_add_epi16(_mm256_maddubs_epi16(w, q_[i][0]),
                            _mm256_maddubs_epi16(swapped, q_[i][1]));
  }
  CRIA_INLINE static __m256i take(__m256i v) {
    return _mm256_and_si256(v, _mm256_set1_epi32(0x0C0C'0303));
  }

 private:
  __m256i q_[4][2];
};
/// Compensates the factor of four.
inline constexpr int kTwoBitsShift = 2;
CRIA_INLINE inline __m256i even_int16_times_four(__m256i v) {
  return _mm256_mullo_epi16(v, _mm256_set1_epi32(1 << 16 | 4));
}

template <>
class Avx2Row<DType::Q2_K> : RowTwoBits {
 public:
  using Block = BlockQ2_K;
  static constexpr int kShift = kTwoBitsShift;

  CRIA_INLINE Avx2Row(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                      const std::int16_t* sum)
      : RowTwoBits(q), rows_(rows), offset_(offset), sum_(even_then_odd(load256(sum))) {}
  CRIA_INLINE void row(const std::byte* p, std::size_t /*r*/, __m256i& sum, __m256i& min) const {
    const auto* const block = reinterpret_cast<const Block*>(p);
    const __m256i all = sixteens(block->q, [&](auto i, __m256i v) CRIA_INLINE {
      return products(i, take(v), take(swap_int16(v)));
    });
    const __m256i packed = _mm256_shuffle_epi8(both_halves(block->scales), load256(kEvenThenOdd));
    const __m256i scales = _mm256_and_si256(packed, _mm256_set1_epi16(15));
    sum = _mm256_madd_epi16(all, even_int16_times_four(scales));
    min = _mm256_madd_epi16(_mm256_srli_epi16(packed, 4), sum_);
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const {
    return _mm256_cvtph_ps(_mm256_castsi256_si128(ends()));
  }
  [[nodiscard]] CRIA_INLINE __m256 dmin() const {
    return _mm256_cvtph_ps(_mm256_extracti128_si256(ends(), 1));
  }

 private:
  /// The scales of even sixteens as int16, then of odd ones.
  alignas(32) static constexpr std::uint8_t kEvenThenOdd[32] = {
      0, 128, 2, 128, 4, 128, 6, 128, 8, 128, 10, 128, 12, 128, 14, 128,
      1, 128, 3, 128, 5, 128, 7, 128, 9, 128, 11, 128, 13, 128, 15, 128};
  [[nodiscard]] CRIA_INLINE __m256i ends() const {
    return ends_of_eight(rows_, offset_ + offsetof(Block, d));
  }

  const std::byte* const* rows_;
  std::size_t offset_;
  __m256i sum_;
};

/// Q2_K with a third bit. Sums of 16 columns less four times the activations fit in int16: 16 *
/// 4 * 127, four times too large. Overflow on the way is harmless.
template <>
class Avx2Row<DType::Q3_K> : RowTwoBits {
 public:
  using Block = BlockQ3_K;
  static constexpr int kShift = kTwoBitsShift;

  CRIA_INLINE Avx2Row(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                      const std::int16_t* sum)
      : RowTwoBits(q),
        rows_(rows),
        offset_(offset),
        centre_(_mm256_mullo_epi16(even_then_odd(load256(sum)), _mm256_set1_epi32(16 << 16 | 4))) {}
  CRIA_INLINE void row(const std::byte* p, std::size_t /*r*/, __m256i& sum) const {
    const auto* const block = reinterpret_cast<const Block*>(p);
    const __m256i hi = load_once256(block->hi), nibble = _mm256_set1_epi8(15);
    const __m256i third[2] = {thirds(_mm256_and_si256(hi, nibble)),
                              thirds(_mm256_and_si256(_mm256_srli_epi16(hi, 4), nibble))};
    const __m256i all = sixteens(block->lo, [&](auto i, __m256i v) CRIA_INLINE {
      const __m256i top = i % 2 == 0 ? third[i / 2] : _mm256_srli_epi16(third[i / 2], 1);
      const auto join = [](__m256i low, __m256i bits) CRIA_INLINE {
        return _mm256_or_si256(take(low), _mm256_and_si256(bits, _mm256_set1_epi32(0x1010'0404)));
      };
      return products(i, join(v, top), join(swap_int16(v), swap_int16(top)));
    });
    sum = _mm256_madd_epi16(_mm256_sub_epi16(all, centre_), scales(p));
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const {
    return RowLanes<Avx2>::eight_f16(rows_, offset_ + offsetof(Block, d));
  }

 private:
  /// Bits 0 and 1 of a nibble to bits 2 and 4, its bits 2 and 3 to bits 3 and 5.
  CRIA_INLINE static __m256i thirds(__m256i nibbles) {
    static constexpr auto kPlaces = [] {
      LaneConstant<std::uint8_t> t{};
      for (unsigned n = 0; n < 16; ++n)
        t.at[n] = static_cast<std::uint8_t>((n & 1) << 2 | (n >> 1 & 1) << 4 | (n >> 2 & 1) << 3 |
                                            (n >> 3) << 5);
      return t;
    }();
    return _mm256_shuffle_epi8(RowLanes<Avx2>::same(&kPlaces), nibbles);
  }
  /// Scale 2k + l is word k of half l, four times as large where k is even.
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    static_assert(offsetof(Block, scales) == sizeof(Block) - 14);
    const __m256i tail = both_halves(p + sizeof(Block) - 16);
    const __m256i low = _mm256_mullo_epi16(_mm256_shuffle_epi8(tail, load256(kLowBytes)),
                                           RowLanes<Avx2>::same(&kLowFactor));
    const __m256i top = _mm256_mullo_epi16(_mm256_shuffle_epi8(tail, load256(kTopBytes)),
                                           RowLanes<Avx2>::same(&kTopFactor));
    const __m256i biased = _mm256_or_si256(
        _mm256_and_si256(_mm256_srli_epi16(low, 4), _mm256_set1_epi32(15 << 16 | 60)),
        _mm256_and_si256(_mm256_srli_epi16(top, 2), _mm256_set1_epi32(0x30 << 16 | 0xC0)));
    return _mm256_sub_epi16(biased, _mm256_set1_epi32(32 << 16 | 128));
  }
  alignas(32) static constexpr std::uint8_t kLowBytes[32] = {
      2, 128, 4, 128, 6, 128, 8, 128, 2, 128, 4, 128, 6, 128, 8, 128,
      3, 128, 5, 128, 7, 128, 9, 128, 3, 128, 5, 128, 7, 128, 9, 128};
  alignas(32) static constexpr std::uint8_t kTopBytes[32] = {
      10, 128, 12, 128, 10, 128, 12, 128, 10, 128, 12, 128, 10, 128, 12, 128,
      11, 128, 13, 128, 11, 128, 13, 128, 11, 128, 13, 128, 11, 128, 13, 128};
  static constexpr LaneConstant<std::uint16_t> kLowFactor = {{64, 16, 64, 16, 4, 1, 4, 1}},
                                               kTopFactor = {{256, 64, 64, 16, 16, 4, 4, 1}};

  const std::byte* const* rows_;
  std::size_t offset_;
  __m256i centre_;
};

template <>
class Avx2Row<DType::Q6_K> {
  using V = RowLanes<Avx2>;

 public:
  /// With streams it is as fast at best, and half as fast in half of all runs; why is not known.
  static constexpr bool kNeighbours = true;
  using Block = BlockQ6_K;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2Row(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                      const std::int16_t* sum)
      : rows_(rows), offset_(offset), q_(q), sum_(load256(sum)) {}
  CRIA_INLINE void row(const std::byte* p, std::size_t /*r*/, __m256i& sum) const {
    const auto* const block = reinterpret_cast<const Block*>(p);
    const __m256i scales = _mm256_cvtepi8_epi16(V::load128(block->scales));
    sum = _mm256_slli_epi32(_mm256_madd_epi16(scales, sum_), 5);
    sum = _mm256_sub_epi32(_mm256_setzero_si256(), sum);
    unroll<2>([&](auto half) CRIA_INLINE {
      const __m256i a = load_once256(block->lo + 64 * half),
                    b = load_once256(block->lo + 64 * half + 32);
      const __m256i top = load_once256(block->hi + 32 * half);
      const __m256i eight = _mm256_permute4x64_epi64(scales, half == 0 ? 0x44 : 0xEE);
      const auto add = [&](int j, __m256i low, __m256i bits) CRIA_INLINE {
        const __m256i products =
            _mm256_maddubs_epi16(_mm256_or_si256(low, bits), load256(q_ + 128 * half + 32 * j));
        const __m256i scale = _mm256_shuffle_epi8(eight, load256(kPairsOfInt16[j].data()));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(products, scale));
      };
      const __m256i low = _mm256_set1_epi8(15), two = _mm256_set1_epi8(0x30);
      add(0, V::take<0>(a, low), V::take<-4>(top, two));
      add(1, V::take<0>(b, low), V::take<-2>(top, two));
      add(2, V::take<4>(a, low), V::take<0>(top, two));
      add(3, V::take<4>(b, low), V::take<2>(top, two));
    });
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const {
    return V::eight_f16(rows_, offset_ + offsetof(Block, d));
  }

 private:
  const std::byte* const* rows_;
  std::size_t offset_;
  const std::int8_t* q_;
  __m256i sum_;
};

/// Nibbles, and in Q5_K a fifth bit. An int16 holds the sum of 16 columns of a sub-block; for five
/// bits it is reduced by 16 times the activations to fit.
template <DType type>
class Avx2RowNibbles {
 public:
  using Block = typename Format<type>::Block;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2RowNibbles(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                             const std::int16_t* sum)
      : rows_(rows), offset_(offset), scales_(rows, offset), q_(q), sum_(sum) {
    if constexpr (kFive) centre_ = _mm256_slli_epi16(even_then_odd(load256(sum)), 4);
  }
  CRIA_INLINE void row(const std::byte* p, std::size_t r, __m256i& sum) const {
    __m256i fifth = _mm256_setzero_si256();
    if constexpr (kFive) fifth = load_once256(p + offsetof(Block, hi));
    const auto quarter = [&](auto i) CRIA_INLINE {
      const __m256i v = load_once256(p + offsetof(Block, lo) + 32 * i), mask = _mm256_set1_epi8(15);
      __m256i low = _mm256_and_si256(v, mask),
              high = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
      if constexpr (kFive) {
        using V = RowLanes<Avx2>;
        low = _mm256_or_si256(low, V::take<2 * i - 4>(fifth, V::splat8(16)));
        high = _mm256_or_si256(high, V::take<2 * i - 3>(fifth, V::splat8(16)));
      }
      return add_int16(_mm256_maddubs_epi16(low, load256(q_ + 64 * i)),
                       _mm256_maddubs_epi16(high, load256(q_ + 64 * i + 32)));
    };
    const __m256i a = add_pairs_int16(quarter(Number<0>{}), quarter(Number<1>{}));
    const __m256i b = add_pairs_int16(quarter(Number<2>{}), quarter(Number<3>{}));
    const __m256i sixteens = add_fours_int16(a, b), scales = scales_.of(r);
    if constexpr (kFive)
      sum = _mm256_add_epi32(_mm256_madd_epi16(_mm256_sub_epi16(sixteens, centre_), scales),
                             _mm256_madd_epi16(centre_, scales));
    else
      sum = _mm256_madd_epi16(sixteens, scales);
  }
  [[nodiscard]] CRIA_INLINE __m256i mins() const {
    using V = RowLanes<Avx2>;
    const __m256i pairs = V::pair_sums(sum_);
    __m256i sums[4];
    unroll<4>([&](int k) CRIA_INLINE {
      __m256i min[1];
      LaneType<V, type>::mins(rows_ + k, offset_, min);
      sums[k] = _mm256_madd_epi16(min[0], pairs);
    });
    return V::sum_rows(sums);
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const {
    return _mm256_cvtph_ps(_mm256_castsi256_si128(ends()));
  }
  [[nodiscard]] CRIA_INLINE __m256 dmin() const {
    return _mm256_cvtph_ps(_mm256_extracti128_si256(ends(), 1));
  }

 private:
  static constexpr bool kFive = type == DType::Q5_K;
  [[nodiscard]] CRIA_INLINE __m256i ends() const {
    return ends_of_eight(rows_, offset_ + offsetof(Block, d));
  }

  const std::byte* const* rows_;
  std::size_t offset_;
  Avx2RowScales<type> scales_;
  const std::int8_t* q_;
  const std::int16_t* sum_;
  __m256i centre_;
};
template <>
class Avx2Row<DType::Q4_K> : public Avx2RowNibbles<DType::Q4_K> {
  using Avx2RowNibbles::Avx2RowNibbles;
};
template <>
class Avx2Row<DType::Q5_K> : public Avx2RowNibbles<DType::Q5_K> {
  using Avx2RowNibbles::Avx2RowNibbles;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
