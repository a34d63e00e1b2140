// IQ4_XS on AVX2, a register of 32 columns at a time: see avx2_wide.h.
#pragma once

#include "kernels/gemv/avx2_wide.h"
#include "kernels/lanes/iq4.h"

namespace cria {

/// Sixteen columns of two sub-blocks side by side, as their nibbles lie. A weight takes the sign of its activation, whose
/// magnitude multiplies it then: 2 * 127 * 127 fits an int16.
template <>
class Avx2Wide<DType::IQ4_XS> {
  using V = RowLanes<Avx2>;

 public:
  using Block = BlockIQ4_XS;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2Wide(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
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
      const __m256i v = load_once(p + offsetof(Block, lo) + 32 * i);
      const __m256i scale = _mm256_shuffle_epi8(scales, load256(kPairsOfWords[i].data()));
      const auto add = [&](int j, __m256i nibbles) CRIA_INLINE {
        const __m256i w = _mm256_sign_epi8(_mm256_shuffle_epi8(values, nibbles), q_[j]);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes_[j], w), scale));
      };
      add(2 * i, _mm256_and_si256(v, mask));
      add(2 * i + 1, _mm256_and_si256(_mm256_srli_epi16(v, 4), mask));
    });
  }
  [[nodiscard]] CRIA_INLINE __m256 d() const { return V::eight_f16(rows_, offset_ + offsetof(Block, d)); }

 private:
  const std::byte* const* rows_;
  std::size_t offset_;
  WideScales<DType::IQ4_XS> scales_;
  __m256i q_[8], magnitudes_[8];
};

}  // namespace cria
