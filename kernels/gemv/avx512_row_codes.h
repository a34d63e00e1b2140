// Row-per-register GEMV of AVX-512 for codebook types. The entries of the blocks of two rows (IQ3:
// of one row) are looked up together, 64 in a register: their codes by permutations, then value j
// of each by one more permutation, which uses two or three digits of a code at once. So no entry is
// loaded on its own. A register holds value j of entries 0 … 31 of both rows (IQ3: of entries 0 …
// 63), and activations are in that order. Four neighbours, or two and two, share a scale.
#pragma once

#include <algorithm>

#include "kernels/gemv/avx512_row.h"
#include "kernels/lanes/iq.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The codes of 64 entries in planes.
struct EntryCodes {
  __m512i low, high;
};

/// Layout of a code's digits in the bytes of its planes: eight digits of two bits in two bytes, or
/// two of three bits in each byte.
template <class Book>
struct Digits {
  static constexpr int kBits = Book::levels.size() <= 4 ? 2 : 3;
  static constexpr int kValues = kBits == 2 ? 8 : 4;  ///< values per entry
};

inline constexpr int kNoSign = 6;  // a permutation sees six bits of a byte
/// Levels of the digit at bit `digit`: the level, negated if bit `sign` is set, plus `bias`.
template <class Book, int digit, int sign = kNoSign, int bias = 0>
alignas(64) inline constexpr auto kLevels = bytes_by([](std::size_t i) {
  const std::size_t d = i >> digit & ((1U << Digits<Book>::kBits) - 1);
  const int level = d < Book::levels.size() ? Book::levels[d] : 0;
  return ((i >> sign & 1) != 0 ? -level : level) + bias;
});
template <class Book, int digit, int sign = kNoSign, int bias = 0>
CRIA_INLINE inline __m512i find_levels(__m512i index) {
  return _mm512_permutexvar_epi8(index, load_bytes(kLevels<Book, digit, sign, bias>));
}
/// Moves the bits of every byte up by `up` (down if negative). Bits from the next byte must be
/// ignored.
template <int up>
CRIA_INLINE inline __m512i move_up(__m512i v) {
  if constexpr (up > 0) return _mm512_slli_epi16(v, up);
  if constexpr (up < 0) return _mm512_srli_epi16(v, -up);
  return v;
}

/// Values of entries whose codes have digits of two bits and no signs.
template <class Book>
struct DigitBytes {
  /// Value j of each.
  template <int j>
  CRIA_INLINE static __m512i of(const EntryCodes& codes) {
    constexpr int kDigit = j % 4;
    const __m512i code = j < 4 ? codes.low : codes.high;
    if constexpr (kDigit == 3) return find_levels<Book, 4>(move_up<-2>(code));
    return find_levels<Book, 2 * kDigit>(code);
  }
};

/// Values of entries with signs (bit j of a byte: value j of the entry), plus kBias, so that none
/// is negative. A sign is placed next to its digits, where one permutation sees both, so nothing is
/// negated.
template <class Book>
class SignedEntries {
  static constexpr int kBits = Digits<Book>::kBits;

 public:
  static constexpr int kBias = *std::max_element(Book::levels.begin(), Book::levels.end());

  CRIA_INLINE SignedEntries(const EntryCodes& codes, __m512i signs) {
    unroll<4>([&](auto i) CRIA_INLINE {
      const __m512i plane = i < 2 ? codes.low : codes.high;
      if constexpr (kBits == 2)  // bits 0 … 3: digits 2i and 2i + 1; 4 and 5: their signs
        index_[i] = select<0x30>(move_up<4 - 2 * i>(signs), move_up<-4 * (i % 2)>(plane));
      else
        index_[i] = select<1 << kSign<i>>(move_up<kSign<i> - i>(signs), plane);
    });
  }
  /// Value j of each.
  template <int j>
  [[nodiscard]] CRIA_INLINE __m512i value() const {
    if constexpr (kBits == 2)
      return find_levels<Book, 2 * (j % 2), 4 + j % 2, kBias>(index_[j / 2]);
    else
      return find_levels<Book, 3 * (j % 2), kSign<j>, kBias>(index_[j]);
  }

 private:
  /// Position of the sign of value j next to digits of three bits, in the place of the other digit.
  template <int j>
  static constexpr int kSign = std::array{3, 1, 5, 2}[j];
  template <int mask>
  CRIA_INLINE static __m512i select(__m512i where, __m512i elsewhere) {
    constexpr int kSelect = 0xCA;  // a ? b : c
    return _mm512_ternarylogic_epi32(_mm512_set1_epi8(mask), where, elsewhere, kSelect);
  }
  __m512i index_[4];
};

/// The activations of a super-block: register j has those that meet value j of the entries.
template <int n>
class EntryValues {
 public:
  CRIA_INLINE explicit EntryValues(const std::int8_t* p) {
    __m512i in[4];
    unroll<4>([&](int k) CRIA_INLINE { in[k] = _mm512_loadu_si512(p + 64 * k); });
    constexpr int kEach = n / 2;  // values in a register below, of the entries of two
    unroll<2>([&](auto i) CRIA_INLINE {
      const __m512i from = load_bytes(kFrom<kEach * i>);
      const __m512i first = _mm512_permutex2var_epi8(in[0], from, in[1]),
                    second = _mm512_permutex2var_epi8(in[2], from, in[3]);
      unroll<kEach>([&](auto j) CRIA_INLINE {
        q_[kEach * i + j] = _mm512_permutex2var_epi64(first, _mm512_load_si512(&kPart<j>), second);
      });
    });
  }
  [[nodiscard]] CRIA_INLINE __m512i operator[](int j) const { return q_[j]; }

 private:
  static constexpr std::size_t kEntries = 128 / n;  // in two registers
  /// Values first, first + 1 … of the entries of two registers, one after the other.
  template <int first>
  alignas(64) static constexpr auto kFrom = bytes_by([](std::size_t i) {
    return i % kEntries * n + first + i / kEntries;
  });
  /// Part j of one, then of the other register, repeated to fill a register.
  template <std::size_t j>
  alignas(64) static constexpr auto kPart = [] {
    std::array<std::uint64_t, 8> from{};
    constexpr std::size_t kPer = kEntries / 8;
    for (std::size_t i = 0; i < 8; ++i) from[i] = i / kPer % 2 * 8 + j * kPer + i % kPer;
    return from;
  }();
  __m512i q_[n];
};

CRIA_INLINE inline __m256i load32(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
/// 32 bytes of each of two rows.
CRIA_INLINE inline __m512i load32(const std::byte* a, const std::byte* b) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(load32(a)), load32(b), 1);
}
/// 16 bytes of each.
CRIA_INLINE inline __m256i load16(const std::byte* a, const std::byte* b) {
  const auto load = [](const std::byte* p) CRIA_INLINE {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load(a)), load(b), 1);
}
/// Eight bytes of each.
CRIA_INLINE inline __m128i load8(const std::byte* a, const std::byte* b) {
  return _mm_set_epi64x(load_bits<std::int64_t>(b), load_bits<std::int64_t>(a));
}
/// Eight bytes of each, four times.
CRIA_INLINE inline __m512i repeat8(const std::byte* a, const std::byte* b) {
  return _mm512_mask_set1_epi64(_mm512_set1_epi64(load_bits<std::int64_t>(a)), 0xF0,
                                load_bits<std::int64_t>(b));
}
/// Nibble i at the bottom of byte i; what is above may be anything.
CRIA_INLINE inline __m512i spread_nibbles(__m256i bytes) {
  const __m512i words = _mm512_cvtepu8_epi16(bytes);
  return _mm512_or_si512(words, _mm512_slli_epi16(words, 4));
}
/// 2s + 1 for an s of `bits` bits, with 2s in bits 1 … of each Int.
template <int bits, class Int = std::int32_t>
CRIA_INLINE inline __m512i odd_scales(__m512i twice) {
  constexpr int kMask = (2 << bits) - 2, kAndOr = 0xEA;  // (a & b) | c
  if constexpr (sizeof(Int) == 2)
    return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi16(kMask), _mm512_set1_epi16(1), kAndOr);
  return _mm512_ternarylogic_epi32(twice, _mm512_set1_epi32(kMask), _mm512_set1_epi32(1), kAndOr);
}

/// Signs of eight values from the low seven bits of each byte.
CRIA_INLINE inline __m512i signs_of_sevens(__m512i sevens) {
  return _mm512_permutex2var_epi8(_mm512_load_si512(&kEvenSigns[0]), sevens,
                                  _mm512_load_si512(&kEvenSigns[64]));
}
/// The same from four times seven bits at the bottom of each int32.
CRIA_INLINE inline __m512i signs_of_dwords(__m512i signs_scales) {
  alignas(64) static constexpr auto kSevens =
      bytes_by([](std::size_t i) { return 32 * (i % 8 / 4) + 7 * (i % 4); });
  return signs_of_sevens(_mm512_multishift_epi64_epi8(load_bytes(kSevens), signs_scales));
}

/// Indices of 64 entries: the low byte of each, and what is above it in the lowest bits of one
/// more.
struct CodedIndices {
  __m512i low, high;
};
/// The codes that two registers of indices name, which share the loads of the tables.
template <class Book>
CRIA_INLINE inline void find_codes(const CodedIndices& first, const CodedIndices& second,
                                   EntryCodes& first_codes, EntryCodes& second_codes) {
  __m512i low[2], high[2];
  RowLanes<Avx512>::find_planes<Book>({first.low, second.low}, {first.high, second.high}, low,
                                      high);
  first_codes = {low[0], high[0]};
  second_codes = {low[1], high[1]};
}

/// The products of 64 entries with signs, four neighbours in a sum. unbias: what kBias adds to
/// each, below zero.
template <class Book>
CRIA_INLINE inline __m512i signed_sums(const EntryCodes& codes, __m512i signs,
                                       const EntryValues<Digits<Book>::kValues>& x,
                                       __m512i unbias) {
  const SignedEntries<Book> entries(codes, signs);
  __m512i sums[2] = {unbias, _mm512_setzero_si512()};
  unroll<Digits<Book>::kValues>([&](auto j) CRIA_INLINE {
    sums[j % 2] = _mm512_dpbusd_epi32(sums[j % 2], entries.template value<j>(), x[j]);
  });
  return _mm512_add_epi32(sums[0], sums[1]);
}

/// The blocks of two rows of a type (avx512_row_iq.h):
/// - Book: its codebook, in planes
/// - Values: activations in its order
/// - kRegisters: registers of entries: one for both rows, or one for each
/// - CodedRows(a, b): decodes the blocks at a and b except the codes
/// - find(first, second): fills the codes of two pairs of rows
/// - products<i>(x): scaled products of register i: sixteen sums, eight for each row if shared
template <DType type>
class CodedRows;

template <DType type, int T>
class CodedGemv : public SuperBlocks<CodedGemv<type, T>, type, T, PrefetchMode::InOrder> {
  static constexpr std::size_t kBytes = LaneType<RowLanes<Avx512>, type>::kBytes;
  friend class SuperBlocks<CodedGemv, type, T, PrefetchMode::InOrder>;
  using Pair = CodedRows<type>;
  using Values = typename Pair::Values;
  static constexpr bool kShared = Pair::kRegisters == 1;

  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* const (&q)[T],
                                      const std::int16_t* const (&sum)[T],
                                      const float* const (&d)[T], std::size_t b, __m256 (&acc)[T]) {
    const auto x = [&]<std::size_t... t>(std::index_sequence<t...>) CRIA_INLINE {
      return std::array<Values, T>{Values(q[t] + 256 * b, sum[t] + 16 * b)...};
    }
    (std::make_index_sequence<T>{});
    __m512i products[T][4];
    unroll<2>([&](int i) CRIA_INLINE {
      // Rows r and r + 4 share registers, or r and r + 1 have their own.
      constexpr int kNext = kShared ? 4 : 1, kStep = kShared ? 1 : 2;
      const auto block = [&](int r)
                             CRIA_INLINE { return rows[(kShared ? 2 * i : 4 * i) + r] + offset; };
      prefetch_far<4 * kBytes, 1>(ahead + i * 4 * kBytes, 0, [&]() CRIA_INLINE {
        for (const int r : {0, kStep, kNext, kNext + kStep}) prefetch_near<kBytes>(block(r));
      });
      Pair first(block(0), block(kNext)), second(block(kStep), block(kStep + kNext));
      Pair::find(first, second);
      unroll<T>([&](int t) CRIA_INLINE {
        products[t][2 * i] = pair(first, x[t]);
        products[t][2 * i + 1] = pair(second, x[t]);
      });
    });
    const __m256 scales = LaneType<RowLanes<Avx512>, type>::d(rows, offset);
    unroll<T>([&](int t) CRIA_INLINE {
      const __m256i sums = kShared ? sum_both(products[t]) : sum_rows(products[t]);
      acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(scales, _mm256_set1_ps(d[t][b])),
                               _mm256_cvtepi32_ps(sums), acc[t]);
    });
  }
  /// Sums of two rows: sixteen sums of both, or both added as neighbours.
  CRIA_INLINE static __m512i pair(const Pair& rows, const Values& x) {
    if constexpr (kShared) return rows.template products<0>(x);
    if constexpr (!kShared)
      return add_neighbours(rows.template products<0>(x), rows.template products<1>(x));
  }
  /// The sums of eight rows; register i has the sums of row i and of row i + 4.
  CRIA_INLINE static __m256i sum_both(const __m512i (&v)[4]) {
    const __m512i lanes = add_pairs(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3]));
    const __m512i sums = _mm512_add_epi32(lanes, _mm512_shuffle_i32x4(lanes, lanes, 0xB1));
    return _mm512_castsi512_si256(_mm512_shuffle_i32x4(sums, sums, 0x88));
  }
};

template <DType type>
requires requires { sizeof(CodedRows<type>); }
struct GemvOf<Avx512, type> {
  template <int T, PrefetchMode>
  using Kernel = CodedGemv<type, T>;
  static constexpr bool kStreams = false;  // its look-ups wait for L1
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
