// IQ1 by permutations of codes: see wide_codes.h.
#pragma once

#include "kernels/gemv/wide_codes.h"

namespace cria {

/// Activations that meet entries of 0, 8 and 16 instead of -8 ± 1, ± 1 and 8 ± 1: -7 (plus) or -9 (minus) times their sums of four
/// are what is missing.
class TernaryValues : public QuadwordValues {
 public:
  CRIA_INLINE explicit TernaryValues(const std::int8_t* p) : QuadwordValues(p) {
    const __m512i none = _mm512_setzero_si512();
    unroll<4>([&](auto j) CRIA_INLINE {
      minus_[j] = _mm512_sub_epi32(none, dot<j>(none, _mm512_set1_epi8(9)));
      plus_[j] = _mm512_sub_epi32(none, dot<j>(none, _mm512_set1_epi8(7)));
    });
  }
  /// That of registers 2h and 2h + 1 together; minus: a bit for each quadword of the first and of the second.
  template <std::size_t h>
  [[nodiscard]] CRIA_INLINE __m512i begin(__mmask8 first_minus, __mmask8 second_minus) const {
    return _mm512_add_epi32(_mm512_mask_blend_epi64(first_minus, plus_[2 * h], minus_[2 * h]),
                            _mm512_mask_blend_epi64(second_minus, plus_[2 * h + 1], minus_[2 * h + 1]));
  }

 private:
  __m512i plus_[4], minus_[4];
};

/// What IQ1 types share: eight times an entry of -1, 0 or 1, plus or minus one.
class CodedTernary {
 public:
  struct Book {
    static constexpr auto& planes = kIq1Planes;
    static constexpr std::array<std::int8_t, 3> levels = {0, 8, 16};
    static constexpr std::size_t kSize = 2048;
  };
  using Values = TernaryValues;
  CodedIndices index;
  __m512i codes[2][1];
  CRIA_INLINE static void find(CodedTernary& first, CodedTernary& second) { find_pairs(first, second); }
  template <std::size_t j>
  [[nodiscard]] CRIA_INLINE __m512i dot(std::size_t /*r*/, const Values& x, __m512i sum, __m512i w) const {
    return x.dot<j>(sum, w);
  }

 protected:
  /// a, b: the low bytes of each row's indices. a_bits, b_bits: 16 bytes with three bits above each, four indices in 16 bits,
  /// `step` from one to the next.
  template <int step>
  CRIA_INLINE void take_index(const std::byte* a, const std::byte* b, const std::byte* a_bits,
                              const std::byte* b_bits) {
    const __m256i words = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a_bits)), load16(b_bits), 1);
    const __m512i dwords = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 0, 4, 4, 1, 1, 5, 5, 2, 2, 6, 6, 3, 3, 7, 7), _mm512_castsi256_si512(words));
    const __m512i high = _mm512_multishift_epi64_epi8(load_bytes(kBits<step>), dwords);
    index = {to_lanes(load32(a), load32(b)), high};
  }
  CRIA_INLINE static __m128i load16(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }

 private:
  /// Four indices to sixteen bits.
  template <int step>
  alignas(64) static constexpr auto kBits = bytes_by([](std::size_t i) {
    return 16 * (i % 8 / 4) + step * (i % 4);
  });
};
template <>
class CodedRows<DType::IQ1_S> : public CodedTernary {
 public:
  __m512i scales[2][1];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kIndex = offsetof(BlockIQ1_S, index), kHigh = offsetof(BlockIQ1_S, hi);
    take_index<3>(a + kIndex, b + kIndex, a + kHigh, b + kHigh);
    take_row(0, a + kHigh);
    take_row(1, b + kHigh);
  }
  template <std::size_t h>
  [[nodiscard]] CRIA_INLINE __m512i begin(std::size_t r, const Values& x) const {
    return x.begin<h>(minus_[r], minus_[r]);
  }

 private:
  CRIA_INLINE void take_row(std::size_t r, const std::byte* high) {
    const __m512i words = _mm512_cvtepu16_epi64(load16(high));
    minus_[r] = _mm512_test_epi64_mask(words, _mm512_set1_epi64(1 << 15));
    scales[r][0] = odd_scales<3>(_mm512_srli_epi32(_mm512_shuffle_epi32(words, _MM_PERM_CCAA), 11));
  }
  __mmask8 minus_[2];
};
template <>
class CodedRows<DType::IQ1_M> : public CodedTernary {
 public:
  __m512i scales[2][2];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kIndex = offsetof(BlockIQ1_M, index), kHigh = offsetof(BlockIQ1_M, hi);
    take_index<4>(a + kIndex, b + kIndex, a + kHigh, b + kHigh);
    take_row(0, a);
    take_row(1, b);
  }
  template <std::size_t h>
  [[nodiscard]] CRIA_INLINE __m512i begin(std::size_t r, const Values& x) const {
    return x.begin<h>(minus<2 * h>(r), minus<2 * h + 1>(r));
  }

 private:
  template <std::size_t j>
  [[nodiscard]] CRIA_INLINE __mmask8 minus(std::size_t r) const {
    return _mm512_test_epi64_mask(high_[r], _mm512_set1_epi64(8 << 4 * j));
  }
  CRIA_INLINE void take_row(std::size_t r, const std::byte* p) {
    high_[r] = _mm512_cvtepu16_epi64(load16(p + offsetof(BlockIQ1_M, hi)));
    const __m512i words = _mm512_set1_epi64(load_bits<std::int64_t>(p + offsetof(BlockIQ1_M, scales)));
    scales[r][0] = odd_scales<3>(_mm512_multishift_epi64_epi8(load_bytes(kScales<0>), words));
    scales[r][1] = odd_scales<3>(_mm512_multishift_epi64_epi8(load_bytes(kScales<3>), words));
  }
  __m512i high_[2];  // four groups of four bits in each quadword

  /// Three bits of two quadwords in each sixteen bits, to bits 1 … 3 of both int32.
  template <std::size_t first>
  alignas(64) static constexpr auto kScales = bytes_by([](std::size_t i) {
    return (16 * (i / 16) + 6 * (i / 8 % 2) + first + 63) % 64;
  });
};

}  // namespace cria
