// Row-per-register GEMV of AVX2 for the codebook types.
#pragma once

#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/gemv/avx2_row.h"
#include "kernels/lanes/iq.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Building blocks of the codebook types: the order of a block's columns in the registers, signs,
// and loads of entries.

/// A row's block in the registers: eight of 32 columns. Groups of eight columns are numbered 0 …
/// 31; registers 2j and 2j + 1 have in their lanes groups 4j … 4j + 3 | 16 + 4j … 19 + 4j. Apart:
/// even groups in the first register, odd ones in the second, so that both use the same scales even
/// if 16 columns share one. Together: in order.
namespace avx2_groups {

CRIA_INLINE inline __m256i load_dwords(const std::byte* p) {
  return _mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<const float*>(p)));
}
CRIA_INLINE inline __m256i load_qwords(const std::byte* p) {
  return _mm256_castpd_si256(_mm256_broadcast_sd(reinterpret_cast<const double*>(p)));
}

/// The same four int16 everywhere.
inline __m256i fours(int a, int b, int c, int d) {
  return _mm256_setr_epi16(a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d);
}

/// For a byte shuffle: int16 i of the result is word from(i) of the lane; or byte from(i), widened.
template <class F>
CRIA_INLINE inline __m256i int16_from(F from) {
  const auto w = [&](int i) { return static_cast<short>((2 * from(i) + 1) << 8 | 2 * from(i)); };
  return _mm256_setr_epi16(w(0), w(1), w(2), w(3), w(4), w(5), w(6), w(7), w(8), w(9), w(10), w(11),
                           w(12), w(13), w(14), w(15));
}
template <class F>
CRIA_INLINE inline __m256i bytes_from(F from) {
  const auto w = [&](int i) { return static_cast<short>(0x8000 | from(i)); };
  return _mm256_setr_epi16(w(0), w(1), w(2), w(3), w(4), w(5), w(6), w(7), w(8), w(9), w(10), w(11),
                           w(12), w(13), w(14), w(15));
}

/// 2s + 1 for the s of `bits` bits from bit shift + 1 of each int16 on.
template <int shift, int bits>
CRIA_INLINE inline __m256i odd(__m256i v) {
  return _mm256_or_si256(
      _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi16((2 << bits) - 2)),
      _mm256_set1_epi16(1));
}

/// 256 activations in the registers' order.
template <bool apart>
class Values {
 public:
  explicit Values(const std::int8_t* q) {
    for (int j = 0; j < 4; ++j) {
      const __m256i a = sixteens(q + 32 * j), b = sixteens(q + 32 * j + 16);
      q_[2 * j] = apart ? _mm256_unpacklo_epi64(a, b) : a;
      q_[2 * j + 1] = apart ? _mm256_unpackhi_epi64(a, b) : b;
    }
  }
  [[nodiscard]] __m256i operator[](int k) const { return q_[k]; }
  /// Sums of the even groups or of the odd ones, in order.
  [[nodiscard]] __m256i sums(int odd) const requires(apart) {
    const auto of = [&](int j) {
      return _mm256_sad_epu8(_mm256_xor_si256(q_[2 * j + odd], _mm256_set1_epi8(-128)),
                             _mm256_setzero_si256());
    };
    const __m256i unsigned_sums =
        _mm256_packus_epi32(_mm256_packus_epi32(of(0), of(1)), _mm256_packus_epi32(of(2), of(3)));
    return _mm256_sub_epi16(unsigned_sums, _mm256_set1_epi16(8 * 128));
  }

 private:
  static __m256i sixteens(const std::int8_t* q) {
    const auto* const p = reinterpret_cast<const __m128i*>(q);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(p)),
                                   _mm_loadu_si128(p + 8), 1);
  }
  __m256i q_[8];
};

/// Signs, a byte of them for each group in order.
template <bool apart>
class Signs {
 public:
  explicit Signs(__m256i bytes) : bytes_(bytes) {}
  [[nodiscard]] __m256i bytes() const { return bytes_; }
  /// To the next two registers, so that what follows has constants which stay in registers.
  void advance() { bytes_ = _mm256_srli_si256(bytes_, 4); }
  /// a, or -a by the signs of the first or second register.
  template <int i>
  CRIA_INLINE __m256i operator()(std::integral_constant<int, i>, __m256i a) const {
    constexpr int first = apart ? i : 2 * i, second = apart ? i + 2 : 2 * i + 1;
    const __m256i groups =
        _mm256_setr_epi64x(kByte * first, kByte * second, kByte * first, kByte * second);
    const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040'2010'0804'0201));
    const __m256i m =
        _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bytes_, groups), bits), bits);
    return _mm256_sub_epi8(_mm256_xor_si256(a, m), m);
  }
  static __m256i weights(__m256i w) { return w; }
  /// Expands seven signs per byte: the eighth makes their number even.
  CRIA_INLINE static Signs even(__m256i sevens) {
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i folded =
        _mm256_and_si256(_mm256_xor_si256(sevens, _mm256_srli_epi16(sevens, 4)), low);
    const __m256i parity = _mm256_setr_epi64x(kParity[0], kParity[1], kParity[0], kParity[1]);
    return Signs(_mm256_or_si256(sevens, _mm256_shuffle_epi8(parity, folded)));
  }

 private:
  static constexpr long long kByte = 0x0101'0101'0101'0101;
  static constexpr long long kParity[2] = {static_cast<long long>(0x8000'0080'0080'8000),
                                           static_cast<long long>(0x0080'8000'8000'0080)};
  __m256i bytes_;
};

/// Weights that are larger by a number, activations as they are.
template <int by>
struct Shifted {
  void advance() {}
  static __m256i weights(__m256i w) { return _mm256_add_epi8(w, _mm256_set1_epi8(by)); }
  template <class K>
  __m256i operator()(K /*k*/, __m256i a) const {
    return a;
  }
};

struct NoMore {
  template <class V>
  NoMore(const V& /*q*/, const std::int16_t* /*sums*/) {}
  __m256i operator()(const std::byte* /*p*/, __m256i /*scales*/) const {
    return _mm256_setzero_si256();
  }
};

/// Four indices of one or two bytes each, by one load: separate loads would wait for the loads of
/// entries.
struct Four {
  std::uint64_t at[4];
  CRIA_INLINE explicit Four(const std::uint8_t* p) {
    const std::uint64_t all = load<std::uint32_t>(p), upper = later(all >> 16);
    at[0] = all & 255, at[1] = all >> 8 & 255, at[2] = upper & 255, at[3] = upper >> 8;
  }
  CRIA_INLINE explicit Four(const std::uint16_t* p) {
    const std::uint64_t all = load<std::uint64_t>(p), upper = later(all >> 32);
    at[0] = all & 0xFFFF, at[1] = static_cast<std::uint32_t>(all) >> 16, at[2] = upper & 0xFFFF,
    at[3] = upper >> 16;
  }

 private:
  /// Hides the origin of v from GCC, which would recompute it. 64 bits: otherwise GCC clears the
  /// upper half of every index.
  CRIA_INLINE static std::uint64_t later(std::uint64_t v) {
    asm("" : "+r"(v));
    return v;
  }
  template <class T>
  CRIA_INLINE static std::uint64_t load(const void* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return later(v);
  }
};

CRIA_INLINE inline __m128i pair(const std::uint64_t* book, std::uint64_t first,
                                std::uint64_t second) {
  const __m128i one = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(book + first));
  return _mm_castps_si128(
      _mm_loadh_pi(_mm_castsi128_ps(one), reinterpret_cast<const __m64*>(book + second)));
}
CRIA_INLINE inline __m128i four(const std::uint32_t* book, const Four& i) {
  __m128i v = _mm_loadu_si32(book + i.at[0]);
  v = _mm_insert_epi32(v, static_cast<int>(book[i.at[1]]), 1);
  v = _mm_insert_epi32(v, static_cast<int>(book[i.at[2]]), 2);
  return _mm_insert_epi32(v, static_cast<int>(book[i.at[3]]), 3);
}
CRIA_INLINE inline __m256i join(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/// Weights of two registers whose indices begin at low and high: groups of eight, apart; groups of
/// four, together.
template <class Index>
CRIA_INLINE inline void entries(const std::uint64_t* book, const Index* low, const Index* high,
                                __m256i (&w)[2]) {
  const Four a(low), b(high);
  for (int i = 0; i < 2; ++i)
    w[i] = join(pair(book, a.at[i], a.at[i + 2]), pair(book, b.at[i], b.at[i + 2]));
}
template <class Index>
CRIA_INLINE inline void entries(const std::uint32_t* book, const Index* low, const Index* high,
                                __m256i (&w)[2]) {
  for (int i = 0; i < 2; ++i) {
    w[i] = join(four(book, Four(low + 4 * i)), four(book, Four(high + 4 * i)));
    pin(w[i]);  // or more indices are taken than there are registers
  }
}

}  // namespace avx2_groups

// IQ2 and IQ3. Loading entries one by one takes most of the time: indices are assembled for eight
// rows at once and kept in memory as int16.

/// A codebook type; each function is for a row's block at p.
/// - Block, book(): its entries
/// - scales(p): sixteen int16, for 16 columns each
/// - signs(p): the change of activations and weights: Signs or Shifted
/// - kSignsFirst: optional: signs are so slow that they are computed for eight rows in advance
/// - More: initial value of the sum: NoMore
///
/// and one of
/// - bytes(p, g): address of the indices of the groups from g on
/// - indices(p, out): writes them as int16, number i at place(i)
template <DType type>
struct Avx2Codebook;

/// Indices whose low bytes and upper bits lie apart: eight of a vector's words are the lane's first
/// eight bytes, and of another vector's the next eight.
struct Avx2ApartIndices {
  static constexpr int place(int i) { return (i & ~31) + i / 8 % 2 * 16 + i / 16 % 2 * 8 + i % 8; }
  /// 32 indices: their low bytes; upper(k): the upper bits of the k-th vector, in place.
  template <class F>
  CRIA_INLINE static void put(__m256i low, F upper, std::uint16_t* out) {
    const __m256i zero = _mm256_setzero_si256();
    store(out, _mm256_or_si256(_mm256_unpacklo_epi8(low, zero), upper(0)));
    store(out + 16, _mm256_or_si256(_mm256_unpackhi_epi8(low, zero), upper(1)));
  }
  static void store(std::uint16_t* out, __m256i v) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(out), v);
  }
};

template <>
struct Avx2Codebook<DType::IQ3_S> : Avx2ApartIndices {
  using Block = BlockIQ3_S;
  using More = avx2_groups::NoMore;
  static auto book() { return kIq3sGrid.data(); }
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    const __m256i from = avx2_groups::bytes_from([](int i) { return i / 4; });
    const __m256i bytes =
        _mm256_shuffle_epi8(avx2_groups::load_dwords(p + offsetof(Block, scales)), from);
    return avx2_groups::odd<3, 4>(_mm256_mullo_epi16(bytes, avx2_groups::fours(16, 16, 1, 1)));
  }
  CRIA_INLINE static auto signs(const std::byte* p) {
    return avx2_groups::Signs<false>(load256(p + offsetof(Block, signs)));
  }
  CRIA_INLINE static void indices(const std::byte* p, std::uint16_t* out) {
    const __m256i hi = avx2_groups::load_qwords(p + offsetof(Block, index_hi));
    const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040'2010'0804'0201));
    for (int v = 0; v < 2; ++v) {
      const long long first = kByte * 4 * v;
      const __m256i from =
          _mm256_setr_epi64x(first, first + kByte, first + 2 * kByte, first + 3 * kByte);
      const __m256i top = _mm256_min_epu8(_mm256_and_si256(_mm256_shuffle_epi8(hi, from), bits),
                                          _mm256_set1_epi8(1));
      const __m256i low = load256(p + offsetof(Block, index) + 32 * v);
      store(out + 32 * v, _mm256_unpacklo_epi8(low, top));
      store(out + 32 * v + 16, _mm256_unpackhi_epi8(low, top));
    }
  }

 private:
  static constexpr long long kByte = 0x0101'0101'0101'0101;
};

/// Four times seven signs and a scale in 32 bits.
template <bool apart>
struct Avx2SevenSigns {
  using More = avx2_groups::NoMore;
  CRIA_INLINE static __m256i scales_of(__m256i dwords) {
    return avx2_groups::odd<11, 4>(_mm256_shuffle_epi8(
        dwords, avx2_groups::int16_from([](int i) { return i % 8 / 2 * 2 + 1; })));
  }
  CRIA_INLINE static auto signs_of(__m256i dwords) {
    return avx2_groups::Signs<apart>::even(RowLanes<Avx2>::sevens(dwords));
  }
};

template <>
struct Avx2Codebook<DType::IQ3_XXS> : Avx2SevenSigns<false> {
  using Block = BlockIQ3_XXS;
  static auto book() { return kIq3xxsGrid.data(); }
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    return Avx2Codebook::scales_of(dwords(p));
  }
  CRIA_INLINE static auto signs(const std::byte* p) { return Avx2Codebook::signs_of(dwords(p)); }
  static const std::uint8_t* bytes(const std::byte* p, int g) {
    return reinterpret_cast<const std::uint8_t*>(p + offsetof(Block, index) + 2 * g);
  }

 private:
  static __m256i dwords(const std::byte* p) { return load256(p + offsetof(Block, signs_scale)); }
};

template <>
struct Avx2Codebook<DType::IQ2_XXS> : Avx2SevenSigns<true> {
  using Block = BlockIQ2_XXS;
  static constexpr bool kSignsFirst = true;
  static auto book() { return kIq2xxsGrid.data(); }
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    return Avx2Codebook::scales_of(dwords(p));
  }
  CRIA_INLINE static auto signs(const std::byte* p) { return Avx2Codebook::signs_of(dwords(p)); }
  static const std::uint8_t* bytes(const std::byte* p, int g) {
    return reinterpret_cast<const std::uint8_t*>(p + offsetof(Block, sub) + 2 * g);
  }

 private:
  CRIA_INLINE static __m256i dwords(const std::byte* p) {
    const std::byte* const sub = p + offsetof(Block, sub);
    return _mm256_permute4x64_epi64(RowLanes<Avx2>::odd_dwords(load256(sub), load256(sub + 32)),
                                    0xD8);
  }
};

/// Eight bytes of scales, four bits each.
struct Avx2NibbleScales {
  using More = avx2_groups::NoMore;
  CRIA_INLINE static __m256i scales_of(const std::byte* bytes) {
    const __m256i from = avx2_groups::bytes_from([](int i) { return i / 2; });
    const __m256i v = _mm256_shuffle_epi8(avx2_groups::load_qwords(bytes), from);
    return avx2_groups::odd<3, 4>(_mm256_mullo_epi16(v, avx2_groups::fours(16, 1, 16, 1)));
  }
};

template <>
struct Avx2Codebook<DType::IQ2_S> : Avx2NibbleScales, Avx2ApartIndices {
  using Block = BlockIQ2_S;
  static auto book() { return kIq2sGrid.data(); }
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    return scales_of(p + offsetof(Block, scales));
  }
  CRIA_INLINE static auto signs(const std::byte* p) {
    return avx2_groups::Signs<true>(load256(p + offsetof(Block, signs)));
  }
  CRIA_INLINE static void indices(const std::byte* p, std::uint16_t* out) {
    const __m256i hi = avx2_groups::load_qwords(p + offsetof(Block, index_hi));
    const auto upper = [&](int k) CRIA_INLINE {
      const __m256i from =
          avx2_groups::bytes_from([&](int i) { return 2 * k + i / 8 * 4 + i % 8 / 4; });
      const __m256i bits =
          _mm256_mullo_epi16(_mm256_shuffle_epi8(hi, from), avx2_groups::fours(256, 64, 16, 4));
      return _mm256_and_si256(bits, _mm256_set1_epi16(0x300));
    };
    put(load256(p + offsetof(Block, index)), upper, out);
  }
};

template <>
struct Avx2Codebook<DType::IQ2_XS> : Avx2NibbleScales {
  using Block = BlockIQ2_XS;
  static constexpr bool kSignsFirst = true;
  static auto book() { return kIq2xsGrid.data(); }
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    return scales_of(p + offsetof(Block, scales));
  }
  CRIA_INLINE static auto signs(const std::byte* p) {
    const __m256i a = _mm256_srli_epi16(load256(p + offsetof(Block, q)), 9);
    const __m256i b = _mm256_srli_epi16(load256(p + offsetof(Block, q) + 32), 9);
    return avx2_groups::Signs<true>::even(
        _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8));
  }
  static constexpr int place(int i) { return i; }
  CRIA_INLINE static void indices(const std::byte* p, std::uint16_t* out) {
    for (int k = 0; k < 2; ++k)
      Avx2ApartIndices::store(
          out + 16 * k,
          _mm256_and_si256(load256(p + offsetof(Block, q) + 32 * k), _mm256_set1_epi16(511)));
  }
};

template <DType type>
concept IsAvx2Codebook = requires {
  typename Avx2Codebook<type>::Block;
};

template <DType type>
requires IsAvx2Codebook<type>
class Avx2Row<type> {
  using Book = Avx2Codebook<type>;
  static constexpr bool kInt16 = requires(std::uint16_t * out) { Book::indices(nullptr, out); };
  static constexpr bool kSignsFirst = requires { Book::kSignsFirst; };
  static constexpr bool kApart = std::is_same_v<decltype(Book::book()), const std::uint64_t*>;
  static constexpr int kIndices = kApart ? 32 : 64;

 public:
  /// Look-ups need the block in L1 early; streams leave it in L2.
  static constexpr bool kNeighbours = true;
  using Block = typename Book::Block;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2Row(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                      const std::int16_t* sum)
      : rows_(rows), offset_(offset), values_(q), more_(values_, sum) {
    for (std::size_t r = 0; r < kRowGroup; ++r) {
      if constexpr (kInt16) Book::indices(rows[r] + offset, indices_[r]);
      if constexpr (kSignsFirst) signs_.of[r] = Book::signs(rows[r] + offset).bytes();
    }
  }
  CRIA_INLINE __m256 d() const { return LaneType<RowLanes<Avx2>, type>::d(rows_, offset_); }

  CRIA_INLINE void row(const std::byte* p, std::size_t r, __m256i& result) const {
    __m256i scales = Book::scales(p);
    auto signs = signs_of(p, r);
    __m256i sum = more_(p, scales);
    const __m256i first_two = avx2_groups::int16_from([](int i) { return i % 8 / 4; });
    unroll<4>([&](auto j) CRIA_INLINE {
      __m256i w[2];
      if constexpr (kInt16) {
        constexpr int kFirst = kIndices / 8 * j, kSecond = kIndices / 2 + kFirst;
        avx2_groups::entries(Book::book(), indices_[r] + Book::place(kFirst),
                             indices_[r] + Book::place(kSecond), w);
      } else {
        avx2_groups::entries(Book::book(), Book::bytes(p, 4 * j), Book::bytes(p, 16 + 4 * j), w);
      }
      __m256i products[2];
      unroll<2>([&](auto i) CRIA_INLINE {
        products[i] = _mm256_maddubs_epi16(signs.weights(w[i]), signs(i, values_[2 * j + i]));
      });
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(products[0], products[1]),
                                                    _mm256_shuffle_epi8(scales, first_two)));
      pin(sum);
      signs.advance();
      scales = _mm256_srli_si256(scales, 4);
    });
    result = sum;
  }

 private:
  CRIA_INLINE auto signs_of(const std::byte* p, std::size_t r) const {
    if constexpr (kSignsFirst) return decltype(Book::signs(p))(signs_.of[r]);
    if constexpr (!kSignsFirst) return Book::signs(p);
  }

  const std::byte* const* rows_;
  std::size_t offset_;
  avx2_groups::Values<kApart> values_;
  typename Book::More more_;
  struct Nothing {};
  struct SignBytes {
    __m256i of[kRowGroup];
  };
  std::conditional_t<kSignsFirst, SignBytes, Nothing> signs_;
  alignas(32) std::conditional_t<kInt16, std::uint16_t[kRowGroup][kIndices], Nothing> indices_;
};

// IQ1: codebooks of three levels.

/// Entries of IQ1 are used as 0, 8, 16. So every column contributes -7 or -9 times its scale, a
/// product of the columns' sums.
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
  CRIA_INLINE static void indices(const std::byte* p, std::uint16_t* out) {
    const __m256i hi = both_halves(p + offsetof(Block, hi));
    const auto upper = [&](int k) CRIA_INLINE {
      const __m256i from =
          avx2_groups::int16_from([&](int i) { return 2 * k + i / 8 * 4 + i % 8 / 4; });
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
        avx2_groups::int16_from([](int i) { return i / 8 * 4 + i % 8 / 2; }));
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
      const auto part = [&](int odd, __m256i minus) CRIA_INLINE {  // minus: 2 or 0
        const __m256i factor = _mm256_sub_epi16(_mm256_set1_epi16(-7), minus);
        return _mm256_madd_epi16(_mm256_mullo_epi16(scales, factor), sums_[odd]);
      };
      const __m256i two = _mm256_set1_epi16(2);
      return _mm256_add_epi32(part(0, _mm256_and_si256(_mm256_srli_epi16(hi, 2), two)),
                              part(1, _mm256_and_si256(_mm256_srli_epi16(hi, 6), two)));
    }

   private:
    __m256i sums_[2];  // even groups, odd groups
  };
  CRIA_INLINE static __m256i scales(const std::byte* p) {
    const __m256i from = avx2_groups::int16_from([](int i) { return i / 4; });
    const __m256i v =
        _mm256_shuffle_epi8(avx2_groups::load_qwords(p + offsetof(Block, scales)), from);
    return avx2_groups::odd<8, 3>(_mm256_mullo_epi16(v, avx2_groups::fours(512, 64, 8, 1)));
  }
  CRIA_INLINE static void indices(const std::byte* p, std::uint16_t* out) {
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

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
