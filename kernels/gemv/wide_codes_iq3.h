// IQ3, three bits a column, by permutations of codes: see wide_codes.h.
#pragma once

#include "kernels/gemv/wide_codes.h"

namespace cria {

/// What IQ3 types share: the 64 entries of a row fill a register. Sixteen columns in a sum, 32 to a
/// scale.
template <DType type>
class CodedThreeBits {
 public:
  using Book = typename LaneType<RowLanes<Avx512>, type>::Book;
  class Values : public EntryValues<4> {
   public:
    CRIA_INLINE Values(const std::int8_t* q, const std::int16_t* sum)
        : EntryValues(q),
          unbias(_mm512_madd_epi16(
              _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum))),
              _mm512_set1_epi32(static_cast<std::uint16_t>(-SignedEntries<Book>::kBias)))) {}
    __m512i unbias;  ///< what the bias adds to sixteen columns, below zero
  };
  static constexpr int kRegisters = 2;
  CRIA_INLINE static void find(CodedThreeBits& first, CodedThreeBits& second) {
    for (CodedThreeBits* rows : {&first, &second})
      find_codes<Book>(rows->index_[0], rows->index_[1], rows->codes_[0], rows->codes_[1]);
  }
  template <int i>
  [[nodiscard]] CRIA_INLINE __m512i products(const Values& x) const {
    return _mm512_mullo_epi32(signed_sums<Book>(codes_[i], signs_[i], x, x.unbias), scales_[i]);
  }

 protected:
  CodedIndices index_[2];
  __m512i signs_[2], scales_[2];  // four signs at the bottom of each byte
  EntryCodes codes_[2];
};
template <>
class CodedRows<DType::IQ3_XXS> : public CodedThreeBits<DType::IQ3_XXS> {
 public:
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kIndex = offsetof(BlockIQ3_XXS, index),
                          kSigns = offsetof(BlockIQ3_XXS, signs_scale);
    const __m512i signs_scales = load32(a + kSigns, b + kSigns),
                  signs = signs_of_dwords(signs_scales),
                  scales = odd_scales<4>(_mm512_srli_epi32(signs_scales, 27));
    unroll<2>([&](auto i) CRIA_INLINE {
      index_[i] = {_mm512_loadu_si512((i == 0 ? a : b) + kIndex), _mm512_setzero_si512()};
      signs_[i] = spread_nibbles(_mm512_extracti64x4_epi64(signs, i));
      constexpr int k = 8 * i;
      const __m512i twice = _mm512_setr_epi32(k, k, k + 1, k + 1, k + 2, k + 2, k + 3, k + 3, k + 4,
                                              k + 4, k + 5, k + 5, k + 6, k + 6, k + 7, k + 7);
      scales_[i] = _mm512_permutexvar_epi32(twice, scales);
    });
  }
};
template <>
class CodedRows<DType::IQ3_S> : public CodedThreeBits<DType::IQ3_S> {
 public:
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    unroll<2>([&](auto i) CRIA_INLINE {
      const std::byte* const p = i == 0 ? a : b;
      const __m512i high =
          _mm512_set1_epi64(load_bits<std::int64_t>(p + offsetof(BlockIQ3_S, index_hi)));
      index_[i] = {_mm512_loadu_si512(p + offsetof(BlockIQ3_S, index)),
                   _mm512_multishift_epi64_epi8(load_bytes(kBits), high)};
      signs_[i] = spread_nibbles(load32(p + offsetof(BlockIQ3_S, signs)));
      const auto nibbles = load_bits<std::int32_t>(p + offsetof(BlockIQ3_S, scales));
      scales_[i] = odd_scales<4>(
          _mm512_rolv_epi32(_mm512_set1_epi32(nibbles), _mm512_load_si512(kToBit1.data())));
    });
  }

 private:
  alignas(64) static constexpr auto kBits = bytes_by([](std::size_t i) { return i; });
  /// How far to rotate eight nibbles, so that two int32 have each in bits 1 … 4.
  alignas(64) static constexpr auto kToBit1 = [] {
    std::array<std::uint32_t, 16> left{};
    for (std::uint32_t i = 0; i < 16; ++i) left[i] = (33 - 4 * (i / 2)) % 32;
    return left;
  }();
};

}  // namespace cria
