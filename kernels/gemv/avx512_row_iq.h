// The codebook types by permutations of their codes: avx512_row_codes.h.
#pragma once

#include "kernels/gemv/avx512_row_codes.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// IQ1.

/// Activations that meet entries of 0, 8 and 16 instead of -8 ± 1, ± 1 and 8 ± 1.
class TernaryValues : public EntryValues<8> {
 public:
  /// sum: of sixteen neighbours each.
  CRIA_INLINE TernaryValues(const std::int8_t* q, const std::int16_t* sum)
      : EntryValues(q), sums(load_twice(sum)) {}
  __m512i sums;  ///< sums of sixteen neighbours, for two rows
};

/// Base of the IQ1 types: eight times an entry of -1, 0 or 1, plus or minus one.
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
  __mmask16 minus_;  // by 32 columns
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
  __m512i scales_;  // by sixteen columns
  /// Four times three bits in each sixteen bits, to bits 1 … 3 of int16.
  alignas(64) static constexpr auto kThrees = bytes_by([](std::size_t i) {
    return (16 * (i / 8 % 4) + 3 * (i % 8 / 2) + 63) % 64;
  });
};

// IQ2, two bits a column.

/// Base of the IQ2 types: entries of two rows and their signs, a byte each.
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

/// Base of types with scales of sixteen columns, stored as nibbles.
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
    __m512i unbias[3];  ///< the negated contribution of the bias to the sums of a part
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
  /// f(j) for the values of part i of three: up to three values, two columns each, whose sums fit
  /// in int16.
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
    __m512i unbias;  ///< the negated contribution of the bias to 32 columns
  };
  template <int>
  [[nodiscard]] CRIA_INLINE __m512i products(const Values& x) const {
    return _mm512_mullo_epi32(signed_sums<Book>(codes_, signs_, x, x.unbias), scales_);
  }

 private:
  __m512i scales_;  // by 32 columns
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

// IQ3, three bits a column.

/// Base of the IQ3 types: the 64 entries of a row fill a register. A sum has sixteen columns, a
/// scale 32.
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
    __m512i unbias;  ///< the negated contribution of the bias to sixteen columns
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
    unroll<2>([&](int i) CRIA_INLINE {
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
  /// Rotations of eight nibbles after which two int32 have each in bits 1 … 4.
  alignas(64) static constexpr auto kToBit1 = [] {
    std::array<std::uint32_t, 16> left{};
    for (std::uint32_t i = 0; i < 16; ++i) left[i] = (33 - 4 * (i / 2)) % 32;
    return left;
  }();
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
