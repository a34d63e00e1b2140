// IQ1 by permutations of codes: see wide_codes.h.
#pragma once

#include "kernels/gemv/wide_codes.h"

namespace cria {

/// Activations that meet entries of 0, 8 and 16 instead of -8 ± 1, ± 1 and 8 ± 1.
class TernaryValues : public EntryValues<8> {
 public:
  /// sum: of sixteen neighbours each.
  CRIA_INLINE TernaryValues(const std::int8_t* q, const std::int16_t* sum)
      : EntryValues(q), sums(load_twice(sum)) {}
  __m512i sums;  ///< of sixteen neighbours, for two rows
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
  static constexpr int kRegisters = 1;
  CRIA_INLINE static void find(CodedTernary& first, CodedTernary& second) {
    __m512i low[2];
    RowLanes<Avx512>::find_plane<Book::kSize>(Book::planes.low.data(),
                                              {first.index_.low, second.index_.low},
                                              {first.index_.high, second.index_.high}, low);
    first.codes_ = {low[0], first.high_codes()};
    second.codes_ = {low[1], second.high_codes()};
  }

 protected:
  CodedIndices index_;
  EntryCodes codes_;

  template <int j>
  [[nodiscard]] CRIA_INLINE __m512i value() const {
    return DigitBytes<Book>::of<j>(codes_);
  }

 private:
  /// The window's first or its second code.
  [[nodiscard]] CRIA_INLINE __m512i high_codes() const {
    constexpr int kSelect = 0xCA;  // a ? b : c
    const __m512i window =
        _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x0F), _mm512_srli_epi16(index_.low, 4),
                                  _mm512_slli_epi16(index_.high, 4), kSelect);
    const auto find = [&](const auto& table) CRIA_INLINE {
      return _mm512_permutex2var_epi8(_mm512_load_si512(table.data()), window,
                                      _mm512_load_si512(table.data() + 64));
    };
    const __mmask64 is_second = _mm512_cmpge_epu8_mask(index_.low, find(kIq1High.change));
    return _mm512_mask_blend_epi8(is_second, find(kIq1High.first), find(kIq1High.second));
  }
};
template <>
class CodedRows<DType::IQ1_S> : public CodedTernary {
 public:
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kIndex = offsetof(BlockIQ1_S, index), kHigh = offsetof(BlockIQ1_S, hi);
    const __m256i high = load16(a + kHigh, b + kHigh);
    index_ = {load32(a + kIndex, b + kIndex),
              _mm512_multishift_epi64_epi8(load_bytes(kThrees), _mm512_cvtepu32_epi64(high))};
    const __m512i words = _mm512_cvtepu16_epi32(high);
    minus_ = _mm512_test_epi32_mask(words, _mm512_set1_epi32(1 << 15));
    scales_ = odd_scales<3>(_mm512_srli_epi32(words, 11));
  }
  template <int>
  [[nodiscard]] CRIA_INLINE __m512i products(const Values& x) const {
    // Entries begin at zero instead of -7 (plus) or -9 (minus).
    const __m512i times8 = _mm512_madd_epi16(x.sums, _mm512_set1_epi16(8)),
                  once = _mm512_madd_epi16(x.sums, _mm512_set1_epi16(1)),
                  none = _mm512_setzero_si512(), plus = _mm512_sub_epi32(once, times8),
                  minus = _mm512_sub_epi32(none, _mm512_add_epi32(once, times8));
    __m512i sums[2] = {_mm512_mask_blend_epi32(minus_, plus, minus), none};
    unroll<8>([&](auto j) CRIA_INLINE {
      sums[j % 2] = _mm512_dpbusd_epi32(sums[j % 2], value<j>(), x[j]);
    });
    return _mm512_mullo_epi32(_mm512_add_epi32(sums[0], sums[1]), scales_);
  }

 private:
  __mmask16 minus_;  // of each 32 columns
  __m512i scales_;
  /// Four indices to sixteen bits.
  alignas(64) static constexpr auto kThrees = bytes_by([](std::size_t i) {
    return 16 * (i % 8 / 4) + 3 * (i % 4);
  });
};
template <>
class CodedRows<DType::IQ1_M> : public CodedTernary {
 public:
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kIndex = offsetof(BlockIQ1_M, index), kHigh = offsetof(BlockIQ1_M, hi),
                          kScales = offsetof(BlockIQ1_M, scales);
    index_ = {load32(a + kIndex, b + kIndex), spread_nibbles(load16(a + kHigh, b + kHigh))};
    scales_ = odd_scales<3, std::int16_t>(
        _mm512_multishift_epi64_epi8(load_bytes(kThrees), repeat8(a + kScales, b + kScales)));
  }
  template <int>
  [[nodiscard]] CRIA_INLINE __m512i products(const Values& x) const {
    // Entries begin at zero instead of -9, and plus adds 2. Sums of eight products fit in an int16.
    const __m512i nines = _mm512_mullo_epi16(x.sums, _mm512_set1_epi16(-9));
    const __m512i plus = _mm512_maskz_mov_epi8(
        _mm512_testn_epi8_mask(index_.high, _mm512_set1_epi8(8)), _mm512_set1_epi8(2));
    __m512i total = _mm512_dpwssd_epi32(_mm512_setzero_si512(), nines, scales_);
    unroll<2>([&](auto half) CRIA_INLINE {
      __m512i sum = _mm512_setzero_si512();
      unroll<4>([&](auto k) CRIA_INLINE {
        constexpr int j = 4 * half + k;
        sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(_mm512_add_epi8(value<j>(), plus), x[j]));
      });
      total = _mm512_dpwssd_epi32(total, sum, scales_);
    });
    return total;
  }

 private:
  __m512i scales_;  // of sixteen columns each
  /// Four times three bits in each sixteen bits, to bits 1 … 3 of int16.
  alignas(64) static constexpr auto kThrees = bytes_by([](std::size_t i) {
    return (16 * (i / 8 % 4) + 3 * (i % 8 / 2) + 63) % 64;
  });
};

}  // namespace cria
