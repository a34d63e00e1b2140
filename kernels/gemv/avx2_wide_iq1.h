// IQ1, one token: codebooks of three levels, see avx2_wide_iq.h.
#pragma once

#include "kernels/gemv/avx2_wide_iq.h"

namespace cria {

/// Entries of IQ1 are taken as 0, 8, 16; so every column has minus seven or minus nine as well,
/// times its scale, which is a product of the columns' sums.
struct Avx2Ternary : Avx2ApartIndices {
  static auto book() { return kIq1Grid.data(); }
  static auto signs(const std::byte* /*p*/) { return avx2_groups::Shifted<8>(); }
};

template <>
struct Avx2Codebook<DType::IQ1_S> : Avx2Ternary {
  using Block = BlockIQ1_S;
  class More {
   public:
    More(const avx2_groups::Values<true>& /*q*/, const std::int16_t* sums) : sums_(load256(sums)) {}
    CRIA_INLINE __m256i operator()(const std::byte* p, __m256i scales) const {
      const __m256i minus = _mm256_srai_epi16(of_sixteens(p), 15);
      const __m256i factor =
          _mm256_add_epi16(_mm256_add_epi16(minus, minus), _mm256_set1_epi16(-7));
      return _mm256_madd_epi16(_mm256_mullo_epi16(scales, factor), sums_);
    }

   private:
    __m256i sums_;
  };
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    return avx2_groups::odd<11, 3>(of_sixteens(p));
  }
  CRIA_INLINE static void words(const std::byte* p, std::uint16_t* out) {
    const __m256i hi = both_halves(p + offsetof(Block, hi));
    const auto upper = [&](int k) CRIA_INLINE {
      const __m256i from =
          avx2_groups::words_from([&](int i) { return 2 * k + i / 8 * 4 + i % 8 / 4; });
      const __m256i bits =
          _mm256_mullo_epi16(_mm256_shuffle_epi8(hi, from), avx2_groups::fours(512, 64, 8, 1));
      return _mm256_and_si256(_mm256_srli_epi16(bits, 1), _mm256_set1_epi16(0x700));
    };
    put(load256(p + offsetof(Block, index)), upper, out);
  }

 private:
  /// The word of each 16 columns.
  CRIA_INLINE static __m256i of_sixteens(const std::byte* p) {
    return _mm256_shuffle_epi8(
        both_halves(p + offsetof(Block, hi)),
        avx2_groups::words_from([](int i) { return i / 8 * 4 + i % 8 / 2; }));
  }
};

template <>
struct Avx2Codebook<DType::IQ1_M> : Avx2Ternary {
  using Block = BlockIQ1_M;
  class More {
   public:
    More(const avx2_groups::Values<true>& q, const std::int16_t* /*sums*/)
        : sums_{q.sums(0), q.sums(1)} {}
    CRIA_INLINE __m256i operator()(const std::byte* p, __m256i scales) const {
      const __m256i hi = _mm256_cvtepu8_epi16(RowLanes<Avx2>::load128(p + offsetof(Block, hi)));
      const auto part = [&](int odd, __m256i minus) CRIA_INLINE {  // minus: two where there is one
        const __m256i factor = _mm256_sub_epi16(_mm256_set1_epi16(-7), minus);
        return _mm256_madd_epi16(_mm256_mullo_epi16(scales, factor), sums_[odd]);
      };
      const __m256i two = _mm256_set1_epi16(2);
      return _mm256_add_epi32(part(0, _mm256_and_si256(_mm256_srli_epi16(hi, 2), two)),
                              part(1, _mm256_and_si256(_mm256_srli_epi16(hi, 6), two)));
    }

   private:
    __m256i sums_[2];  // of the even groups, of the odd ones
  };
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    const __m256i from = avx2_groups::words_from([](int i) { return i / 4; });
    const __m256i v =
        _mm256_shuffle_epi8(avx2_groups::load_qwords(p + offsetof(Block, scales)), from);
    return avx2_groups::odd<8, 3>(_mm256_mullo_epi16(v, avx2_groups::fours(512, 64, 8, 1)));
  }
  CRIA_INLINE static void words(const std::byte* p, std::uint16_t* out) {
    const __m256i hi = both_halves(p + offsetof(Block, hi));
    const auto upper = [&](int k) CRIA_INLINE {
      const __m256i from =
          avx2_groups::bytes_from([&](int i) { return 4 * k + i / 8 * 8 + i % 8 / 2; });
      const __m256i bits =
          _mm256_mullo_epi16(_mm256_shuffle_epi8(hi, from), avx2_groups::fours(256, 16, 256, 16));
      return _mm256_and_si256(bits, _mm256_set1_epi16(0x700));
    };
    put(load256(p + offsetof(Block, index)), upper, out);
  }
};

}  // namespace cria
