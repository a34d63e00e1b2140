// The ternary types on AVX2, a register of 32 columns at a time: see avx2_wide.h.
#pragma once

#include "kernels/gemv/avx2_wide.h"
#include "kernels/lanes/ternary.h"

namespace cria {

/// Without scales all columns add up in words: 16 products of at most 3 * 127.
template <>
class Avx2Wide<DType::TQ2_0> {
  using V = RowLanes<Avx2>;

 public:
  using Block = BlockTQ2_0;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2Wide(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                       const std::int16_t* sum)
      : rows_(rows), offset_(offset), q_(q) {
    const __m256i sums = _mm256_madd_epi16(load256(sum), _mm256_set1_epi16(-1));
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    more_ = _mm256_broadcastd_epi32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  CRIA_INLINE void row(const std::byte* p, std::size_t /*r*/, __m256i& sum) const {
    const __m256i three = _mm256_set1_epi8(3);
    __m256i words = _mm256_setzero_si256();
    unroll<2>([&](auto half) CRIA_INLINE {
      const __m256i v = load_once256(p + offsetof(Block, q) + 32 * half);
      unroll<4>([&](auto j) CRIA_INLINE {
        const __m256i products =
            V::products(V::take<2 * j>(v, three), load256(q_ + 128 * half + 32 * j));
        words = _mm256_add_epi16(words, products);
      });
    });
    sum = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
  }
  /// Every weight is one too large.
  [[nodiscard]] CRIA_INLINE __m256i more() const { return more_; }
  [[nodiscard]] CRIA_INLINE __m256 d() const {
    return V::eight_f16(rows_, offset_ + offsetof(Block, d));
  }

 private:
  const std::byte* const* rows_;
  std::size_t offset_;
  const std::int8_t* q_;
  __m256i more_;
};

}  // namespace cria
