// Products of one token on AVX-512 for codebook types, a row's 256 columns at a time: the codes of its 32 or 64 entries are
// looked up by permutations, and their digits become bytes by two more, so that nothing is loaded entry by entry.
//
// Quadword q of a block's codes has those of columns 32q … 32q + 31. Shifts within quadwords give register j of four the
// digits of columns 32q + 8j … 32q + 8j + 7: activations come in that order. So all sums of a quadword share the scales of
// its 32 columns, one or two. What does not fill a register (indices of two bits a column, signs) is decoded for two rows
// together: lane l has columns 64l … 64l + 63, in its low half of the first row.
#pragma once

#include "kernels/gemv/wide.h"
#include "kernels/lanes/iq.h"

namespace cria {

/// The bytes of a register, as a function of their place.
template <class F>
constexpr std::array<std::uint8_t, 64> bytes_by(F f) {
  std::array<std::uint8_t, 64> bytes{};
  for (std::size_t i = 0; i < 64; ++i) bytes[i] = static_cast<std::uint8_t>(f(i));
  return bytes;
}
CRIA_INLINE inline __m512i load_bytes(const std::array<std::uint8_t, 64>& bytes) {
  return _mm512_load_si512(bytes.data());
}

/// The bytes that digits of two bits (eight in a code) or three (four in a code) stand for.
template <class Book>
struct DigitBytes {
  static constexpr bool kTwoBits = Book::levels.size() <= 4;
  static constexpr std::size_t kRegisters =
      kTwoBits ? 1 : 2;  ///< of codes: all of a quadword's, or the halves
  template <std::size_t j>
  CRIA_INLINE static __m512i of(const __m512i* codes) {
    const __m512i digits = _mm512_multishift_epi64_epi8(load_bytes(kShifts<j>), codes[j * kRegisters / 4]);
    return _mm512_permutexvar_epi8(digits, load_bytes(kLevels));  // what is above a digit is not looked at
  }

 private:
  template <std::size_t j>
  alignas(64) static constexpr auto kShifts = bytes_by([](std::size_t i) {
    return kTwoBits ? 16 * j + 2 * (i % 8) : 16 * (2 * (j % 2) + i % 8 / 4) + 3 * (i % 4);
  });
  alignas(64) static constexpr auto kLevels = bytes_by([](std::size_t i) {
    const std::size_t digit = i % (kTwoBits ? 4 : 8);
    return digit < Book::levels.size() ? Book::levels[digit] : 0;
  });
};

/// The activations of a super-block in the order of the digits, and their negatives.
class QuadwordValues {
 public:
  CRIA_INLINE explicit QuadwordValues(const std::int8_t* p) {
    __m512i in[4];
    unroll<4>([&](auto k) CRIA_INLINE { in[k] = _mm512_loadu_si512(p + 64 * k); });
    unroll<4>([&](auto j) CRIA_INLINE {
      const __m512i from = _mm512_setr_epi64(j, 4 + j, 8 + j, 12 + j, 0, 0, 0, 0);
      const __m512i low = _mm512_permutex2var_epi64(in[0], from, in[1]),
                    high = _mm512_permutex2var_epi64(in[2], from, in[3]);
      q_[j] = _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
      negative_[j] = _mm512_sub_epi8(_mm512_setzero_si512(), q_[j]);
    });
  }
  /// sum + the products with w.
  template <std::size_t j>
  [[nodiscard]] CRIA_INLINE __m512i dot(__m512i sum, __m512i w) const {
    return _mm512_dpbusd_epi32(sum, w, q_[j]);
  }
  /// The same with -w where `negative` says so.
  template <std::size_t j>
  [[nodiscard]] CRIA_INLINE __m512i dot(__m512i sum, __m512i w, __mmask64 negative) const {
    return _mm512_dpbusd_epi32(sum, w, _mm512_mask_blend_epi8(negative, q_[j], negative_[j]));
  }

 private:
  __m512i q_[4], negative_[4];
};

/// Which of a row's 64 indices lies at byte i, where the middle dwords of each lane are exchanged.
constexpr std::size_t exchanged_index(std::size_t i) {
  constexpr std::size_t kDwords[4] = {0, 2, 1, 3};
  return i / 16 * 16 + 4 * kDwords[i / 4 % 4] + i % 4;
}

/// The same for entries of -1, 0 and 1, with what 8 or 9 or 7 times their sums of four are, negated.
class TernaryValues : public QuadwordValues {
 public:
  CRIA_INLINE explicit TernaryValues(const std::int8_t* p) : QuadwordValues(p) {
    const __m512i none = _mm512_setzero_si512();
    unroll<4>([&](auto j) CRIA_INLINE {
      minus_[j] = _mm512_sub_epi32(none, dot<j>(none, _mm512_set1_epi8(9)));
      plus_[j] = _mm512_sub_epi32(none, dot<j>(none, _mm512_set1_epi8(7)));
    });
  }
  /// What entries that are eight too large and lack the eighth (minus: of -1) begin with: half h, one minus for each
  /// quadword of both registers.
  template <std::size_t h>
  [[nodiscard]] CRIA_INLINE __m512i begin(__mmask8 first_minus, __mmask8 second_minus) const {
    return _mm512_add_epi32(_mm512_mask_blend_epi64(first_minus, plus_[2 * h], minus_[2 * h]),
                            _mm512_mask_blend_epi64(second_minus, plus_[2 * h + 1], minus_[2 * h + 1]));
  }

 private:
  __m512i plus_[4], minus_[4];
};

/// What the types' pairs of rows share. Scales are 2s + 1 for an s of four bits, in both int32 of a quadword.
class CodedPair {
 public:
  using Values = QuadwordValues;
  /// What the sums of row r's registers 2h and 2h + 1 begin with.
  template <std::size_t h>
  [[nodiscard]] CRIA_INLINE __m512i begin(std::size_t /*r*/, const Values& /*x*/) const {
    return _mm512_setzero_si512();
  }
  /// sum + the products of its register j.
  template <std::size_t j>
  [[nodiscard]] CRIA_INLINE __m512i dot(std::size_t r, const Values& x, __m512i sum, __m512i w) const {
    return x.dot<j>(sum, w, _mm512_bitshuffle_epi64_mask(signs_[r], load_bytes(kSignBits<j>)));
  }

  CRIA_INLINE static __m512i load32(const std::byte* p) {  ///< above are any
    return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  CRIA_INLINE static std::int64_t load8(const std::byte* p) {
    std::int64_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
  }
  /// Four times eight bytes of each row to the lanes.
  CRIA_INLINE static __m512i to_lanes(__m512i a, __m512i b) {
    return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
  }

 protected:
  /// Signs of each row in the order of columns.
  CRIA_INLINE void take_signs(const std::byte* a, const std::byte* b) {
    signs_[0] = _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a)));
    signs_[1] = _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
  }
  /// In the lanes, seven bits for each eight; what is above may be anything.
  CRIA_INLINE void take_sevens(__m512i sevens) {
    const __m512i signs = _mm512_permutex2var_epi8(_mm512_load_si512(kEvenSigns.data()), sevens,
                                                   _mm512_load_si512(kEvenSigns.data() + 64));
    signs_[0] = _mm512_unpacklo_epi32(signs, signs);
    signs_[1] = _mm512_unpackhi_epi32(signs, signs);
  }
  /// In the lanes, int32 with four times seven bits and an s. scales: of the first row, of the second.
  CRIA_INLINE void take_signs_scales(__m512i signs_scales, __m512i (&first)[1], __m512i (&second)[1]) {
    take_sevens(_mm512_multishift_epi64_epi8(load_bytes(kSevens), signs_scales));
    const __m512i scales = odd(_mm512_srli_epi32(signs_scales, 27));
    first[0] = _mm512_unpacklo_epi32(scales, scales);
    second[0] = _mm512_unpackhi_epi32(scales, scales);
  }
  /// 2s + 1, where 2s lies in bits 1 … 4.
  CRIA_INLINE static __m512i odd(__m512i twice) {
    constexpr int kAndOr = 0xEA;  // (a & b) | c
    return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi32(30), _mm512_set1_epi32(1), kAndOr);
  }
  /// The low and the high nibbles of eight bytes, one for each quadword.
  CRIA_INLINE static void scales_of_nibbles(const std::byte* p, __m512i (&scales)[2]) {
    const __m512i bytes = _mm512_maskz_permutexvar_epi8(0x1111'1111'1111'1111, load_bytes(kQuadword),
                                                        _mm512_set1_epi64(load8(p)));
    scales[0] = odd(_mm512_add_epi32(bytes, bytes));
    scales[1] = odd(_mm512_srli_epi32(bytes, 3));
  }

 private:
  __m512i signs_[2];  // [row]: in each quadword's low int32, those of its columns

  template <std::size_t j>
  alignas(64) static constexpr auto kSignBits = bytes_by([](std::size_t i) { return 8 * j + i % 8; });
  alignas(64) static constexpr auto kQuadword = bytes_by([](std::size_t i) { return i / 8; });
  alignas(64) static constexpr auto kSevens = bytes_by([](std::size_t i) {
    return 32 * (i % 8 / 4) + 7 * (i % 4);
  });
};

/// Indices in the lanes: the low byte of each, and what is above it in one more.
struct CodedIndices {
  __m512i low, high;
};
/// The codes that two registers of indices name, in the order of the lanes' low halves and of their high halves.
template <class Book>
CRIA_INLINE inline void find_both(const CodedIndices& first, const CodedIndices& second, __m512i* first_codes,
                                  __m512i* second_codes) {
  RowLanes<Avx512>::CodesOf<Book, 1> found[2];
  RowLanes<Avx512>::find_codes<2>(
      0, [&](int p) CRIA_INLINE -> auto& { return found[p]; },
      [&](int p) CRIA_INLINE { return p == 0 ? first.low : second.low; },
      [&](int p) CRIA_INLINE { return p == 0 ? first.high : second.high; });
  unroll<2>([&](auto i) CRIA_INLINE {
    first_codes[i] = found[0].codes[i];
    second_codes[i] = found[1].codes[i];
  });
}
/// The codes of two pairs of rows, which share the loads of the table.
template <class Pair>
CRIA_INLINE inline void find_pairs(Pair& first, Pair& second) {
  __m512i a[2], b[2];
  find_both<typename Pair::Book>(first.index, second.index, a, b);
  unroll<2>([&](auto r) CRIA_INLINE { first.codes[r][0] = a[r], second.codes[r][0] = b[r]; });
}

/// The blocks at a and b of two rows: codes, [row][register of codes]; scales, [row], for all 32 columns of a quadword or for
/// 16 and 16; signs.
template <DType type>
class CodedRows;

/// Of two bits a column.
template <DType type>
struct CodedTwoBits : CodedPair {
  using Book = typename LaneType<RowLanes<Avx512>, type>::Book;
  CodedIndices index;
  __m512i codes[2][1];
  CRIA_INLINE static void find(CodedTwoBits& first, CodedTwoBits& second) { find_pairs(first, second); }
};
template <>
class CodedRows<DType::IQ2_XXS> : public CodedTwoBits<DType::IQ2_XXS> {
 public:
  __m512i scales[2][1];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    const __m512 first = subs(a), second = subs(b);
    index = {_mm512_castps_si512(_mm512_shuffle_ps(first, second, 0x88)), _mm512_setzero_si512()};
    take_signs_scales(_mm512_castps_si512(_mm512_shuffle_ps(first, second, 0xDD)), scales[0], scales[1]);
  }

 private:
  CRIA_INLINE static __m512 subs(const std::byte* p) {
    return _mm512_castsi512_ps(_mm512_loadu_si512(p + offsetof(BlockIQ2_XXS, sub)));
  }
};
template <>
class CodedRows<DType::IQ2_XS> : public CodedTwoBits<DType::IQ2_XS> {
 public:
  __m512i scales[2][2];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    const __m512i first = _mm512_loadu_si512(a + offsetof(BlockIQ2_XS, q)),
                  second = _mm512_loadu_si512(b + offsetof(BlockIQ2_XS, q));
    const __m512i high = _mm512_permutex2var_epi8(first, load_bytes(kBytes<1>), second);
    index = {_mm512_permutex2var_epi8(first, load_bytes(kBytes<0>), second), high};
    take_sevens(_mm512_srli_epi16(high, 1));
    scales_of_nibbles(a + offsetof(BlockIQ2_XS, scales), scales[0]);
    scales_of_nibbles(b + offsetof(BlockIQ2_XS, scales), scales[1]);
  }

 private:
  /// The low (0) or high (1) bytes of both rows' words, to the lanes.
  template <std::size_t high>
  alignas(64) static constexpr auto kBytes = bytes_by([](std::size_t i) {
    return 64 * (i % 16 / 8) + 2 * (i / 16 * 8 + i % 8) + high;
  });
};
template <>
class CodedRows<DType::IQ2_S> : public CodedTwoBits<DType::IQ2_S> {
 public:
  __m512i scales[2][2];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    constexpr std::size_t kHigh = offsetof(BlockIQ2_S, index_hi), kScales = offsetof(BlockIQ2_S, scales);
    const __m512i pairs = _mm512_broadcast_i32x4(_mm_set_epi64x(load8(b + kHigh), load8(a + kHigh)));
    index = {to_lanes(load32(a + offsetof(BlockIQ2_S, index)), load32(b + offsetof(BlockIQ2_S, index))),
             _mm512_multishift_epi64_epi8(load_bytes(kPairs), pairs)};
    take_signs(a + offsetof(BlockIQ2_S, signs), b + offsetof(BlockIQ2_S, signs));
    scales_of_nibbles(a + kScales, scales[0]);
    scales_of_nibbles(b + kScales, scales[1]);
  }

 private:
  alignas(64) static constexpr auto kPairs = bytes_by([](std::size_t i) {
    return 16 * (i / 16) + 2 * (i % 8);
  });
};

/// Of three bits a column: the 64 indices of a row fill a register. Codes of entries 8q … 8q + 3 come first, those of the
/// four after them second.
template <DType type>
struct CodedThreeBits : CodedPair {
  using Book = typename LaneType<RowLanes<Avx512>, type>::Book;
  __m512i codes[2][2];

  CodedIndices index[2];
  CRIA_INLINE static void find(CodedThreeBits& first, CodedThreeBits& second) {
    find_both<Book>(first.index[0], first.index[1], first.codes[0], first.codes[1]);
    find_both<Book>(second.index[0], second.index[1], second.codes[0], second.codes[1]);
  }

 protected:
  CRIA_INLINE static __m512i exchanged(const std::byte* indices) {
    return _mm512_shuffle_epi32(_mm512_loadu_si512(indices), _MM_PERM_DBCA);
  }
};
template <>
class CodedRows<DType::IQ3_XXS> : public CodedThreeBits<DType::IQ3_XXS> {
 public:
  __m512i scales[2][1];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    index[0] = {exchanged(a + offsetof(BlockIQ3_XXS, index)), _mm512_setzero_si512()};
    index[1] = {exchanged(b + offsetof(BlockIQ3_XXS, index)), _mm512_setzero_si512()};
    constexpr std::size_t kSigns = offsetof(BlockIQ3_XXS, signs_scale);
    take_signs_scales(to_lanes(load32(a + kSigns), load32(b + kSigns)), scales[0], scales[1]);
  }
};
template <>
class CodedRows<DType::IQ3_S> : public CodedThreeBits<DType::IQ3_S> {
 public:
  __m512i scales[2][1];
  CRIA_INLINE CodedRows(const std::byte* a, const std::byte* b) {
    take_row(0, a);
    take_row(1, b);
    take_signs(a + offsetof(BlockIQ3_S, signs), b + offsetof(BlockIQ3_S, signs));
  }

 private:
  CRIA_INLINE void take_row(std::size_t r, const std::byte* p) {
    const __m512i high = _mm512_set1_epi64(load8(p + offsetof(BlockIQ3_S, index_hi)));
    index[r] = {exchanged(p + offsetof(BlockIQ3_S, index)),
                _mm512_multishift_epi64_epi8(load_bytes(kBits), high)};
    std::int32_t nibbles;
    std::memcpy(&nibbles, p + offsetof(BlockIQ3_S, scales), sizeof nibbles);
    scales[r][0] = odd(_mm512_rolv_epi32(_mm512_set1_epi32(nibbles), _mm512_load_si512(kToBit1.data())));
  }
  alignas(64) static constexpr auto kBits = bytes_by(exchanged_index);
  /// How far to rotate eight nibbles, so that quadword q has the q-th in bits 1 … 4.
  alignas(64) static constexpr auto kToBit1 = [] {
    std::array<std::uint32_t, 16> left{};
    for (std::uint32_t i = 0; i < 16; ++i) left[i] = (33 - 4 * (i / 2)) % 32;
    return left;
  }();
};

/// Entries of -1, 0 and 1 with an eighth more or less: in eighths, and eight too large.
template <DType type>
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
  /// bits: of each row a register with the dword of lane l's columns in that lane's half of the row; `step` between the three
  /// bits of one index and the next.
  template <int step>
  CRIA_INLINE void take_index(const std::byte* a, const std::byte* b, const std::byte* a_bits,
                              const std::byte* b_bits) {
    const __m256i words = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a_bits)), load16(b_bits), 1);
    const __m512i dwords = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 0, 4, 4, 1, 1, 5, 5, 2, 2, 6, 6, 3, 3, 7, 7), _mm512_castsi256_si512(words));
    const __m512i high = _mm512_multishift_epi64_epi8(load_bytes(kBits<step>), dwords);
    index = {CodedPair::to_lanes(CodedPair::load32(a), CodedPair::load32(b)), high};
  }
  CRIA_INLINE static __m128i load16(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  /// 2s + 1, where 2s lies in bits 1 … 3.
  CRIA_INLINE static __m512i odd(__m512i twice) {
    constexpr int kAndOr = 0xEA;  // (a & b) | c
    return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi32(14), _mm512_set1_epi32(1), kAndOr);
  }

 private:
  /// Four indices to sixteen bits.
  template <int step>
  alignas(64) static constexpr auto kBits = bytes_by([](std::size_t i) {
    return 16 * (i % 8 / 4) + step * (i % 4);
  });
};
template <>
class CodedRows<DType::IQ1_S> : public CodedTernary<DType::IQ1_S> {
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
    scales[r][0] = odd(_mm512_srli_epi32(_mm512_shuffle_epi32(words, _MM_PERM_CCAA), 11));
  }
  __mmask8 minus_[2];
};
template <>
class CodedRows<DType::IQ1_M> : public CodedTernary<DType::IQ1_M> {
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
    const __m512i words = _mm512_set1_epi64(CodedPair::load8(p + offsetof(BlockIQ1_M, scales)));
    scales[r][0] = odd(_mm512_multishift_epi64_epi8(load_bytes(kScales<0>), words));
    scales[r][1] = odd(_mm512_multishift_epi64_epi8(load_bytes(kScales<3>), words));
  }
  __m512i high_[2];  // four groups of four bits in each quadword

  /// Three bits of two quadwords in each sixteen bits, to bits 1 … 3 of both int32.
  template <std::size_t first>
  alignas(64) static constexpr auto kScales = bytes_by([](std::size_t i) {
    return (16 * (i / 16) + 6 * (i / 8 % 2) + first + 63) % 64;
  });
};

template <DType type>
class CodedGemv : public SuperBlocks<CodedGemv<type>, LaneType<RowLanes<Avx512>, type>::kBytes> {
  static constexpr std::size_t kBytes = LaneType<RowLanes<Avx512>, type>::kBytes;
  friend class SuperBlocks<CodedGemv, kBytes>;
  using Pair = CodedRows<type>;
  using Bytes = DigitBytes<typename Pair::Book>;

  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* q,
                                      const std::int16_t* /*sum*/, __m256 da, __m256& acc) {
    const typename Pair::Values x(q);
    __m512i pairs[4];
    unroll<2>([&](auto i) CRIA_INLINE {
      const std::byte* block[4];
      fetch_far<4 * kBytes, 1>(ahead + i * 4 * kBytes, 0);
      unroll<4>([&](auto r) CRIA_INLINE {
        block[r] = rows[4 * i + r] + offset;
        fetch_near<kBytes>(block[r]);
      });
      Pair first(block[0], block[1]), second(block[2], block[3]);
      Pair::find(first, second);
      pairs[2 * i] = add_neighbours(row<0>(first, x), row<1>(first, x));
      pairs[2 * i + 1] = add_neighbours(row<0>(second, x), row<1>(second, x));
    });
    const __m256 sums = _mm256_cvtepi32_ps(sum_rows(pairs));
    acc = _mm256_fmadd_ps(_mm256_mul_ps(LaneType<RowLanes<Avx512>, type>::d(rows, offset), da), sums, acc);
  }
  /// The products of a row's block, scaled, in sixteen sums.
  template <std::size_t r>
  CRIA_INLINE static __m512i row(const Pair& pair, const typename Pair::Values& x) {
    constexpr std::size_t kScales = sizeof pair.scales[r] / sizeof(__m512i);
    __m512i sums[2] = {pair.template begin<0>(r, x), pair.template begin<1>(r, x)};
    unroll<4>([&](auto j) CRIA_INLINE {
      __m512i& sum = sums[j / 2];
      sum = pair.template dot<j>(r, x, sum, Bytes::template of<j>(pair.codes[r]));
    });
    if constexpr (kScales == 1) sums[0] = _mm512_add_epi32(sums[0], sums[1]);
    __m512i total = _mm512_mullo_epi32(sums[0], pair.scales[r][0]);
    if constexpr (kScales == 2)
      total = _mm512_add_epi32(total, _mm512_mullo_epi32(sums[1], pair.scales[r][1]));
    return total;
  }
};

template <DType type>
requires requires { sizeof(CodedRows<type>); }
struct OneToken<Avx512, type> {
  using Type = CodedGemv<type>;
};

}  // namespace cria
