// IQ2, two bits a column, by permutations of codes: see wide_codes.h.
#pragma once

#include "kernels/gemv/wide_codes.h"

namespace cria {

/// What IQ2 types share: entries of two rows and their signs, a byte for each.
template <DType type>
class CodedTwoBits {
 public:
  using Book = typename LaneType<RowLanes<Avx512>, type>::Book;
  static constexpr int kRegisters = 1;
  CRIA_INLINE static void find(CodedTwoBits& first, CodedTwoBits& second) {
    find_codes<Book>(first.index_, second.index_, first.codes_, second.codes_);
  }

 protected:
  CodedIndices index_;
  __m512i signs_;
  EntryCodes codes_;
};

/// Of those whose scales are of sixteen columns, nibbles.
template <DType type>
class CodedSixteens : public CodedTwoBits<type> {
 public:
  using Entries = SignedEntries<typename CodedTwoBits<type>::Book>;
  class Values : public EntryValues<8> {
   public:
    CRIA_INLINE Values(const std::int8_t* q, const std::int16_t* /*sum*/) : EntryValues(q) {
      unroll<3>([&](auto i) CRIA_INLINE {
        unbias[i] = _mm512_setzero_si512();
        CodedSixteens::template each_of<i>([&](auto j) CRIA_INLINE {
          unbias[i] = _mm512_sub_epi16(
              unbias[i], _mm512_maddubs_epi16(_mm512_set1_epi8(Entries::kBias), (*this)[j]));
        });
      });
    }
    __m512i unbias[3];  ///< what the bias adds to the sums of a part, below zero
  };
  template <int>
  [[nodiscard]] CRIA_INLINE __m512i products(const Values& x) const {
    const Entries entries(this->codes_, this->signs_);
    __m512i total = _mm512_setzero_si512();
    unroll<3>([&](auto i) CRIA_INLINE {
      __m512i sum = x.unbias[i];  // modulo 2^16; the end fits
      each_of<i>([&](auto j) CRIA_INLINE {
        sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(entries.template value<j>(), x[j]));
      });
      total = _mm512_dpwssd_epi32(total, sum, scales_);
    });
    return total;
  }

 protected:
  /// Sixteen nibbles of each row.
  CRIA_INLINE void take_scales(const std::byte* a, const std::byte* b) {
    const __m512i words = _mm512_cvtepu16_epi64(load8(a, b));
    scales_ =
        odd_scales<4, std::int16_t>(_mm512_multishift_epi64_epi8(load_bytes(kNibbles), words));
  }

 private:
  /// f(j) for the values of part i of three: two columns each of three at most, whose sums fit in
  /// an int16.
  template <int i, class F>
  CRIA_INLINE static void each_of(F f) {
    unroll<(i < 2 ? 3 : 2)>([&](auto k)
                                CRIA_INLINE { f(std::integral_constant<int, 3 * i + k>{}); });
  }
  __m512i scales_;
  /// Four nibbles of each quadword to bits 1 … 4 of int16.
  alignas(64) static constexpr auto kNibbles = bytes_by([](std::size_t i) {
    return (4 * (i % 8 / 2) + 63) % 64;
  });
};

template <>
class CodedRows<DType::IQ2_XXS> : public CodedTwoBits<DType::IQ2_XXS> {
 public:
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kSubs = offsetof(BlockIQ2_XXS, sub);
    const __m512i first = _mm512_loadu_si512(a + kSubs), second = _mm512_loadu_si512(b + kSubs);
    index_ = {dwords<0>(first, second), _mm512_setzero_si512()};
    const __m512i signs_scales = dwords<1>(first, second);
    signs_ = signs_of_dwords(signs_scales);
    scales_ = odd_scales<4>(_mm512_srli_epi32(signs_scales, 27));
  }
  class Values : public EntryValues<8> {
   public:
    CRIA_INLINE Values(const std::int8_t* q, const std::int16_t* sum)
        : EntryValues(q),
          unbias(
              _mm512_madd_epi16(load_twice(sum), _mm512_set1_epi16(-SignedEntries<Book>::kBias))) {}
    __m512i unbias;  ///< what the bias adds to 32 columns, below zero
  };
  template <int>
  [[nodiscard]] CRIA_INLINE __m512i products(const Values& x) const {
    return _mm512_mullo_epi32(signed_sums<Book>(codes_, signs_, x, x.unbias), scales_);
  }

 private:
  __m512i scales_;  // of 32 columns each
  /// The even (0) or odd (1) ones of both.
  template <int odd>
  CRIA_INLINE static __m512i dwords(__m512i a, __m512i b) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_epi32(a, _mm512_add_epi32(even, _mm512_set1_epi32(odd)), b);
  }
};
template <>
class CodedRows<DType::IQ2_XS> : public CodedSixteens<DType::IQ2_XS> {
 public:
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    const __m512i first = _mm512_loadu_si512(a + offsetof(BlockIQ2_XS, q)),
                  second = _mm512_loadu_si512(b + offsetof(BlockIQ2_XS, q));
    const __m512i high = _mm512_permutex2var_epi8(first, load_bytes(kBytes<1>), second);
    index_ = {_mm512_permutex2var_epi8(first, load_bytes(kBytes<0>), second), high};
    signs_ = signs_of_sevens(_mm512_srli_epi16(high, 1));
    take_scales(a + offsetof(BlockIQ2_XS, scales), b + offsetof(BlockIQ2_XS, scales));
  }

 private:
  /// The low (0) or high (1) bytes of both rows' words.
  template <std::size_t high>
  alignas(64) static constexpr auto kBytes = bytes_by([](std::size_t i) { return 2 * i + high; });
};
template <>
class CodedRows<DType::IQ2_S> : public CodedSixteens<DType::IQ2_S> {
 public:
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kIndex = offsetof(BlockIQ2_S, index),
                          kHigh = offsetof(BlockIQ2_S, index_hi),
                          kSigns = offsetof(BlockIQ2_S, signs),
                          kScales = offsetof(BlockIQ2_S, scales);
    index_ = {load32(a + kIndex, b + kIndex),
              _mm512_multishift_epi64_epi8(load_bytes(kTwos), repeat8(a + kHigh, b + kHigh))};
    signs_ = load32(a + kSigns, b + kSigns);
    take_scales(a + kScales, b + kScales);
  }

 private:
  alignas(64) static constexpr auto kTwos = bytes_by([](std::size_t i) { return 2 * i % 64; });
};

}  // namespace cria
