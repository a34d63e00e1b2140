// What the codebook types of avx2_wide_iq.h and avx2_wide_iq1.h are made of: the order of a block's
// columns in the registers, signs, and how entries are fetched.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/gemv/avx2_wide.h"

namespace cria {

/// A row's block in the registers: eight of 32 columns. Groups of eight columns are counted 0 … 31;
/// registers 2j and 2j + 1 have in their lanes groups 4j … 4j + 3 | 16 + 4j … 19 + 4j. Apart: the
/// first has the even ones of them, the second the odd ones, so that both are multiplied by the
/// same scales even where 16 columns share one; together: in order.
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
CRIA_INLINE inline __m256i words_from(F from) {
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

/// 2s + 1 for the s of so many bits from bit shift + 1 of each int16 on.
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
  /// a, or -a where those of the first register or of the second say so.
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
  /// Of seven signs in each byte: the eighth makes their number even.
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

/// Four indices, from as many bytes or words, by one load: a load for each would wait for those of
/// the entries.
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
  /// GCC shall not take apart what follows with what v was made of. As 64 bits, or it clears the
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

}  // namespace cria
