// IQ4_XS and IQ4_KS on AVX2, a register of 32 columns at a time: see avx2_wide.h.
#pragma once

#include "kernels/gemv/avx2_wide.h"
#include "kernels/lanes/iq4.h"

namespace cria {

/// Sixteen columns of two sub-blocks side by side, as their nibbles lie. A weight takes the sign of
/// its activation, whose magnitude multiplies it then: 2 * 127 * 127 fits an int16.
template <DType type>
class Avx2WideIq4 {
 protected:
  using V = RowLanes<Avx2>;

 public:
  using Block = typename Format<type>::Block;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2WideIq4(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                          const std::int16_t* /*sum*/)
      : rows_(rows), offset_(offset), scales_(rows, offset) {
    unroll<8>([&](auto i) CRIA_INLINE {
      const std::int8_t* const p = q + i / 2 * 64 + i % 2 * 16;
      q_[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(V::load128(p)), V::load128(p + 32), 1);
      magnitudes_[i] = _mm256_abs_epi8(q_[i]);
    });
    keep_in_memory(q_);
    keep_in_memory(magnitudes_);
  }
  CRIA_INLINE void row(const std::byte* p, std::size_t r, __m256i& sum) const {
    const __m256i values = V::same(&Iq4Nibbles<V>::kBiased), mask = _mm256_set1_epi8(15),
                  scales = scales_.of(r);
    sum = _mm256_setzero_si256();
    unroll<4>([&](auto i) CRIA_INLINE {
      const __m256i v = load_once256(p + offsetof(Block, lo) + 32 * i);
      const __m256i scale = _mm256_shuffle_epi8(scales, load256(kPairsOfWords[i].data()));
      const auto add = [&](int j, __m256i nibbles) CRIA_INLINE {
        const __m256i w = _mm256_sign_epi8(_mm256_shuffle_epi8(values, nibbles), q_[j]);
        sum = _mm256_add_epi32(sum,
                               _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes_[j], w), scale));
      };
      add(2 * i, _mm256_and_si256(v, mask));
      add(2 * i + 1, _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
    });
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const { return LaneType<V, type>::d(rows_, offset_); }

 private:
  const std::byte* const* rows_;
  std::size_t offset_;
  Avx2WideScales<type> scales_;
  __m256i q_[8], magnitudes_[8];
};

template <>
class Avx2Wide<DType::IQ4_XS> : public Avx2WideIq4<DType::IQ4_XS> {
  using Avx2WideIq4::Avx2WideIq4;
};

/// What all weights of a sub-block are moved by is multiplied by the sum of its activations.
template <>
class Avx2Wide<DType::IQ4_KS> : public Avx2WideIq4<DType::IQ4_KS> {
 public:
  CRIA_INLINE Avx2Wide(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                       const std::int16_t* sum)
      : Avx2WideIq4(rows, offset, q, sum) {
    const __m256i pairs = V::pair_sums(sum);
    __m256i sums[4];
    unroll<4>([&](auto k) CRIA_INLINE {
      __m256i scales[1];
      LaneType<V, DType::IQ4_KS>::scales(rows + k, offset, scales);
      const __m256i bytes = V::zip_low8(V::load(rows + k, offset), V::zero());
      const __m256i moved =
          _mm256_cmpeq_epi16(_mm256_and_si256(bytes, V::splat16(1)), V::splat16(1));
      sums[k] = _mm256_madd_epi16(_mm256_and_si256(scales[0], moved), pairs);
    });
    static_assert(kIq4Shift == 4);
    more_ = _mm256_slli_epi32(V::sum_rows(sums), 2);
  }
  [[nodiscard]] CRIA_INLINE __m256i more() const { return more_; }

 private:
  __m256i more_;
};

}  // namespace cria
