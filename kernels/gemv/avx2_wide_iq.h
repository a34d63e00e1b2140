// IQ2 and IQ3, one token, 32 columns of a row in a register. What takes the time is fetching
// entries one by one: their indices are put together for eight rows at once and wait in memory as
// words. See avx2_wide.h.
#pragma once

#include <type_traits>

#include "kernels/gemv/avx2_wide_entries.h"
#include "kernels/lanes/iq.h"

namespace cria {

/// What a codebook type says, all of a row's block at p:
///   Block, book()         its entries
///   scales(p)             sixteen int16, for 16 columns each
///   signs(p)              how activations and weights change: Signs, Shifted
///   kSignsFirst           optional: they take so long that those of eight rows are better made
///   first More                  what the sum begins with: NoMore
/// and of indices either bytes(p, g), those of the groups from g on, or
///   words(p, out)         writes them, a word each: number i at place(i)
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
  CRIA_INLINE static void words(const std::byte* p, std::uint16_t* out) {
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
        dwords, avx2_groups::words_from([](int i) { return i % 8 / 2 * 2 + 1; })));
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
  CRIA_INLINE static void words(const std::byte* p, std::uint16_t* out) {
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
  CRIA_INLINE static void words(const std::byte* p, std::uint16_t* out) {
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
class Avx2Wide<type> {
  using Book = Avx2Codebook<type>;
  static constexpr bool kWords = requires(std::uint16_t * out) { Book::words(nullptr, out); };
  static constexpr bool kSignsFirst = requires { Book::kSignsFirst; };
  static constexpr bool kApart = std::is_same_v<decltype(Book::book()), const std::uint64_t*>;
  static constexpr int kIndices = kApart ? 32 : 64;

 public:
  /// Look-ups want early in the first-level cache what streams leave in the second.
  static constexpr bool kNeighbours = true;
  using Block = typename Book::Block;
  static constexpr int kShift = 0;

  CRIA_INLINE Avx2Wide(const std::byte* const* rows, std::size_t offset, const std::int8_t* q,
                       const std::int16_t* sum)
      : rows_(rows), offset_(offset), values_(q), more_(values_, sum) {
    for (std::size_t r = 0; r < kRowGroup; ++r) {
      if constexpr (kWords) Book::words(rows[r] + offset, words_[r]);
      if constexpr (kSignsFirst) signs_.of[r] = Book::signs(rows[r] + offset).bytes();
    }
  }
  CRIA_INLINE __m256 d() const { return LaneType<RowLanes<Avx2>, type>::d(rows_, offset_); }

  CRIA_INLINE void row(const std::byte* p, std::size_t r, __m256i& result) const {
    __m256i scales = Book::scales(p);
    auto signs = signs_of(p, r);
    __m256i sum = more_(p, scales);
    const __m256i first_two = avx2_groups::words_from([](int i) { return i % 8 / 4; });
    unroll<4>([&](auto j) CRIA_INLINE {
      __m256i w[2];
      if constexpr (kWords) {
        constexpr int kFirst = kIndices / 8 * j, kSecond = kIndices / 2 + kFirst;
        avx2_groups::entries(Book::book(), words_[r] + Book::place(kFirst),
                             words_[r] + Book::place(kSecond), w);
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
  alignas(32) std::conditional_t<kWords, std::uint16_t[kRowGroup][kIndices], Nothing> words_;
};

}  // namespace cria
