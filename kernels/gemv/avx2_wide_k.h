// The K types on AVX2, a register of 32 columns at a time: see avx2_wide.h.
#pragma once

#include "kernels/gemv/avx2_wide.h"
#include "kernels/lanes/k.h"

namespace cria {

/// Bytes p[0] … p[15] in both halves, always from memory: GCC would rather put together what another load has left in a
/// register, which takes a shuffle.
CRIA_INLINE inline __m256i both_halves(const std::byte* p) {
  asm("" : "+r"(p));
  return RowLanes<Avx2>::same(p);
}
/// A lookup in both halves.
CRIA_INLINE inline __m256i shuffle(__m256i v, const LaneConstant<std::uint8_t>& from) {
  return _mm256_shuffle_epi8(v, RowLanes<Avx2>::same(&from));
}
/// The words of every int32 in the other order.
CRIA_INLINE inline __m256i swap_words(__m256i v) {
  static constexpr LaneConstant<std::uint8_t> kSwapped = {
      {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}};
  return shuffle(v, kSwapped);
}

/// The f16 d and dmin of the eight rows, where they lie side by side at `offset`: d in the lower half.
CRIA_INLINE inline __m256i ends_of_eight(const std::byte* const* rows, std::size_t offset) {
  static constexpr LaneConstant<std::uint8_t> kApart = {
      {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15}};
  return _mm256_permute4x64_epi64(shuffle(RowLanes<Avx2>::load_u32(rows, offset), kApart), 0xD8);
}

/// A word of a register holds two columns. Four numbers of two bits share a byte; the lower two are multiplied where they
/// lie, the one in even words, the other in odd ones, where it is four times too large; then, with
/// the words swapped, the other way round. So sums of 16 columns need
/// half as many additions across a register.
template <>
class Avx2Wide<DType::Q2_K> {
 public:
  using Block = BlockQ2_K;
  static constexpr int kShift = 2;

  CRIA_INLINE Avx2Wide(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                       const std::int16_t* sum)
      : rows_(rows), offset_(offset) {
    unroll<4>([&](auto i) CRIA_INLINE {
      const __m256i a = load256(q + 64 * i), b = load256(q + 64 * i + 32);
      q_[i][0] = _mm256_blend_epi16(a, b, 0xAA);
      q_[i][1] = swap_words(_mm256_blend_epi16(b, a, 0xAA));
    });
    // Those of even sixteens, then of odd ones.
    sum_ = _mm256_permute4x64_epi64(shuffle(load256(sum), kEvenWords), 0xD8);
  }
  CRIA_INLINE void row(const std::byte* p, std::size_t /*r*/, __m256i& sum, __m256i& min) const {
    const __m256i first = load256(p + offsetof(Block, q)), second = load256(p + offsetof(Block, q) + 32);
    const __m256i a = add_dwords(pair<0>(first), pair<1>(_mm256_srli_epi16(first, 4)));
    const __m256i b = add_dwords(pair<2>(second), pair<3>(_mm256_srli_epi16(second, 4)));
    const __m256i sixteens = _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    const __m256i packed =
        _mm256_shuffle_epi8(both_halves(p + offsetof(Block, scales)), load256(kEvenThenOdd));
    const __m256i scales = _mm256_and_si256(packed, _mm256_set1_epi16(15));
    sum = _mm256_madd_epi16(sixteens, _mm256_mullo_epi16(scales, _mm256_set1_epi32(1 << 16 | 4)));
    min = _mm256_madd_epi16(_mm256_srli_epi16(packed, 4), sum_);
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const { return _mm256_cvtph_ps(_mm256_castsi256_si128(ends())); }
  [[nodiscard]] CRIA_INLINE __m256 dmin() const {
    return _mm256_cvtph_ps(_mm256_extracti128_si256(ends(), 1));
  }

 private:
  static constexpr LaneConstant<std::uint8_t> kEvenWords = {
      {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15}};
  /// The scales of even sixteens as int16, then of odd ones.
  alignas(32) static constexpr std::uint8_t kEvenThenOdd[32] = {
      0, 128, 2, 128, 4, 128, 6, 128, 8, 128, 10, 128, 12, 128, 14, 128,
      1, 128, 3, 128, 5, 128, 7, 128, 9, 128, 11, 128, 13, 128, 15, 128};

  /// Sums of numbers 0 and 1 of the bytes, in turn: at most 6096, and four times that.
  template <int i>
  [[nodiscard]] CRIA_INLINE __m256i pair(__m256i v) const {
    const __m256i mask = _mm256_set1_epi32(0x0C0C'0303);
    return _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_and_si256(v, mask), q_[i][0]),
                            _mm256_maddubs_epi16(_mm256_and_si256(swap_words(v), mask), q_[i][1]));
  }
  /// In both halves int32: those of a (of b in turn) added in pairs, as words.
  CRIA_INLINE static __m256i add_dwords(__m256i a, __m256i b) {
    return _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  }
  [[nodiscard]] CRIA_INLINE __m256i ends() const {
    return ends_of_eight(rows_, offset_ + offsetof(Block, d));
  }

  const std::byte* const* rows_;
  std::size_t offset_;
  __m256i q_[4][2], sum_;
};

}  // namespace cria
