// Products of one token on AVX-512 for codebook types, a row's 256 columns at a time: the codes of its 32 or 64 entries are
// looked up by permutations, and their digits become bytes by two more, so that nothing is loaded entry by entry.
//
// Quadword q of a block's codes has those of columns 32q … 32q + 31 (IQ3: of two registers, sixteen columns each). Shifts
// within quadwords give register j of four the digits of columns 32q + 8j … 32q + 8j + 7: activations come in that order. So
// all sums of a quadword share the scales of its 32 columns, one or two. What does not fill a register (indices of two bits a
// column, signs) is decoded for two rows together: lane l has columns 64l … 64l + 63, in its low half of the first row, in its
// high half of the second.
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
    return _mm512_permutexvar_epi8(digits,
                                   _mm512_load_si512(RowLanes<Avx512>::kRepeated<Book::levels>.data()));
  }

 private:
  template <std::size_t j>
  alignas(64) static constexpr auto kShifts = bytes_by([](std::size_t i) {
    return kTwoBits ? 16 * j + 2 * (i % 8) : 16 * (2 * (j % 2) + i % 8 / 4) + 3 * (i % 4);
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

CRIA_INLINE inline __m512i load32(const std::byte* p) {  ///< above are any
  return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
/// Four times eight bytes of each of two rows to the lanes.
CRIA_INLINE inline __m512i to_lanes(__m512i a, __m512i b) {
  return _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
}
/// 2s + 1 for an s of so many bits, where 2s lies in bits 1 … of each int32.
template <int bits>
CRIA_INLINE inline __m512i odd_scales(__m512i twice) {
  constexpr int kMask = (2 << bits) - 2, kAndOr = 0xEA;  // (a & b) | c
  return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi32(kMask), _mm512_set1_epi32(1), kAndOr);
}

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
    const __m512i scales = odd_scales<4>(_mm512_srli_epi32(signs_scales, 27));
    first[0] = _mm512_unpacklo_epi32(scales, scales);
    second[0] = _mm512_unpackhi_epi32(scales, scales);
  }
  /// The low and the high nibbles of eight bytes, one for each quadword.
  CRIA_INLINE static void scales_of_nibbles(const std::byte* p, __m512i (&scales)[2]) {
    const __m512i bytes = _mm512_maskz_permutexvar_epi8(0x1111'1111'1111'1111, load_bytes(kQuadword),
                                                        _mm512_set1_epi64(load_bits<std::int64_t>(p)));
    scales[0] = odd_scales<4>(_mm512_add_epi32(bytes, bytes));
    scales[1] = odd_scales<4>(_mm512_srli_epi32(bytes, 3));
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

/// The blocks of two rows of a type (wide_codes_iq1.h, wide_codes_iq2.h, wide_codes_iq3.h):
///   Book                   its codebook, in planes
///   Values                 activations as it wants them
///   CodedRows(a, b)        decodes all but the codes of the blocks at a and b
///   find(first, second)    fills the codes of two pairs of rows
///   codes[row][]           one register, or one for the first and one for the second half of each quadword
///   scales[row][]          for the 32 columns of each quadword, or for 16 and 16
///   begin<h>(row, x)       what the sums of registers 2h and 2h + 1 begin with
///   dot<j>(row, x, sum, w) sum + the products of register j, of bytes w
template <DType type>
class CodedRows;

template <DType type>
class CodedGemv
    : public SuperBlocks<CodedGemv<type>, LaneType<RowLanes<Avx512>, type>::kBytes, Reading::InOrder> {
  static constexpr std::size_t kBytes = LaneType<RowLanes<Avx512>, type>::kBytes;
  friend class SuperBlocks<CodedGemv, kBytes, Reading::InOrder>;
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
