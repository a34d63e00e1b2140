// Lanes of AVX2: two rows in a ymm register, with the dot products of AVX2 or of AVX-VNNI. See
// simd/row_lanes.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Common base of AVX2 and AVX-512: a float or an int32 of each of 8 rows in a ymm register.

template <class Isa>
struct EightRows {
  using Float8 = __m256;
  using Int8 = __m256i;
  using RowPtr = const std::byte* const*;

  static __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static Int8 sub_all(Int8 v, int x) { return _mm256_sub_epi32(v, _mm256_set1_epi32(x)); }
  static Float8 to_float(Int8 v) { return _mm256_cvtepi32_ps(v); }
  static Float8 zero_float() { return _mm256_setzero_ps(); }
  static Float8 splat_float(float x) { return _mm256_set1_ps(x); }
  static Float8 mul(Float8 a, Float8 b) { return _mm256_mul_ps(a, b); }
  static Float8 fma(Float8 a, Float8 b, Float8 c) { return _mm256_fmadd_ps(a, b, c); }
  static Float8 fnma(Float8 a, Float8 b, Float8 c) { return _mm256_fnmadd_ps(a, b, c); }
  static void store(float* p, Float8 v) { _mm256_storeu_ps(p, v); }
  template <int N>
  static Int8 byte(Int8 v) {
    return _mm256_and_si256(_mm256_srli_epi32(v, 8 * N), _mm256_set1_epi32(255));
  }
  /// 2^(e - 128) for e of 0…255, subnormal for 0 and 1.
  static Float8 half_of_e8m0(Int8 e) {
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i subnormal =
        _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), _mm256_min_epi32(e, one));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    return _mm256_castsi256_ps(_mm256_max_epi32(normal, subnormal));
  }
  /// The f16 at this byte of each row.
  static Float8 eight_f16(RowPtr rows, std::size_t offset) {
    const auto h = [&](int r) {
      std::int16_t bits;
      std::memcpy(&bits, rows[r] + offset, sizeof bits);
      return bits;
    };
    return _mm256_cvtph_ps(_mm_setr_epi16(h(0), h(1), h(2), h(3), h(4), h(5), h(6), h(7)));
  }
};

/// Dot products that are one instruction with AVX-VNNI. pairs(acc, a, b): every int32 of acc plus
/// the products of its two int16. AVX-VNNI also has bytes(acc, u, s): plus the products of its four
/// bytes, unsigned u and signed s.
template <class Isa>
struct Dot256;

template <>
struct Dot256<Avx2> {
  static __m256i pairs(__m256i acc, __m256i a, __m256i b) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
  }
};

template <class Isa>
struct TwoRows : EightRows<Isa> {
  using typename EightRows<Isa>::Float8, typename EightRows<Isa>::Int8,
      typename EightRows<Isa>::RowPtr;
  using EightRows<Isa>::load128;
  using Dot = Dot256<Isa>;
  static constexpr std::size_t kLanes = 2, kPacks = kRowGroup / kLanes;
  static constexpr int kBias = 0;
  using Vec = __m256i;

  static Vec load(RowPtr rows, std::size_t offset) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(rows[0] + offset)),
                                   load128(rows[kPacks] + offset), 1);
  }
  static Vec same(const void* p) { return _mm256_broadcastsi128_si256(load128(p)); }

  static Vec zero() { return _mm256_setzero_si256(); }
  static Vec splat8(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  static Vec splat16(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
  static Vec bit_and(Vec a, Vec b) { return _mm256_and_si256(a, b); }
  static Vec bit_or(Vec a, Vec b) { return _mm256_or_si256(a, b); }
  static Vec bit_xor(Vec a, Vec b) { return _mm256_xor_si256(a, b); }
  template <int N>
  static Vec take(Vec v, Vec mask) {
    if constexpr (N < 0) return bit_and(_mm256_slli_epi16(v, -N), mask);
    return bit_and(N == 0 ? v : _mm256_srli_epi16(v, N), mask);
  }
  static Vec add8(Vec a, Vec b) { return _mm256_add_epi8(a, b); }
  static Vec sub8(Vec a, Vec b) { return _mm256_sub_epi8(a, b); }
  static Vec abs8(Vec v) { return _mm256_abs_epi8(v); }
  static Vec add16(Vec a, Vec b) { return _mm256_add_epi16(a, b); }
  static Vec sub16(Vec a, Vec b) { return _mm256_sub_epi16(a, b); }
  static Vec mul16(Vec a, Vec b) { return _mm256_mullo_epi16(a, b); }
  template <int N>
  static Vec shr16(Vec v) {
    return _mm256_srli_epi16(v, N);
  }
  template <int N>
  static Vec shl16(Vec v) {
    return _mm256_slli_epi16(v, N);
  }
  static Vec add32(Vec a, Vec b) { return _mm256_add_epi32(a, b); }
  static Vec mul32(Vec a, Vec b) { return _mm256_mullo_epi32(a, b); }
  template <int N>
  static Vec shl32(Vec v) {
    return _mm256_slli_epi32(v, N);
  }
  /// Every int32 of acc plus the sum of its four bytes of v, of up to 63.
  static Vec sum_bytes(Vec acc, Vec v) {
    if constexpr (requires { Dot::bytes(acc, v, acc); }) return Dot::bytes(acc, v, splat8(1));
    return Dot::pairs(acc, products(v, splat8(1)), splat16(1));
  }
  static Vec lookup(Vec table, Vec index) { return _mm256_shuffle_epi8(table, index); }
  static Vec zip_low8(Vec a, Vec b) { return _mm256_unpacklo_epi8(a, b); }
  static Vec zip_high8(Vec a, Vec b) { return _mm256_unpackhi_epi8(a, b); }
  /// The first (last) eight bytes of a, then of b.
  static Vec join_low(Vec a, Vec b) { return _mm256_unpacklo_epi64(a, b); }
  static Vec join_high(Vec a, Vec b) { return _mm256_unpackhi_epi64(a, b); }
  static Vec widen_low(Vec v) { return _mm256_srai_epi16(_mm256_unpacklo_epi8(v, v), 8); }
  static Vec widen_high(Vec v) { return _mm256_srai_epi16(_mm256_unpackhi_epi8(v, v), 8); }
  /// 0xFF where all bits of `bits` are set in v.
  static Vec has_bits(Vec v, Vec bits) { return _mm256_cmpeq_epi8(bit_and(v, bits), bits); }

  /// w + x where v has bits.
  static Vec add_where(Vec w, Vec v, Vec bits, Vec x) {
    return add8(w, bit_and(has_bits(v, bits), x));
  }
  /// Sixteen bytes of signs per lane, in the form that with_signs() wants.
  using Signs = Vec;
  static Signs signs(Vec v) { return v; }
  /// offset + w, or offset - w where the bits of bytes 2i and 2i + 1 say so.
  template <int i>
  static Vec with_signs(Vec w, Signs signs, Vec offset) {
    const Vec m = negative<i>(signs);
    return add8(bit_xor(w, m), sub8(offset, m));
  }
  /// 0xFF where they say so.
  template <int i>
  static Vec negative(Signs signs) {
    return has_bits(lookup(signs, same(&kSpread<2 * i>)), same(&kBitOfByte));
  }
  /// Activations take a sign as cheaply as weights do, and magnitudes need no zero.
  static constexpr bool kNegates = true;
  static Vec negate(Vec a, Vec negative) { return sub8(bit_xor(a, negative), negative); }
  /// Counts how many of a, b are less than v; signed bytes.
  static Vec count_less(Vec v, Vec a, Vec b) {
    return sub8(sub8(zero(), _mm256_cmpgt_epi8(v, a)), _mm256_cmpgt_epi8(v, b));
  }
  /// The low (high) bytes of 8 and 8 int16 of each lane.
  static Vec low_bytes(Vec a, Vec b) {
    return _mm256_packus_epi16(bit_and(a, splat16(0xFF)), bit_and(b, splat16(0xFF)));
  }
  static Vec high_bytes(Vec a, Vec b) { return _mm256_packus_epi16(shr16<8>(a), shr16<8>(b)); }
  /// The even (odd) int32 of a, then of b.
  static Vec even_dwords(Vec a, Vec b) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
  }
  static Vec odd_dwords(Vec a, Vec b) {
    return _mm256_castps_si256(
        _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0xDD));
  }
  /// Bits 7k … 7k+6 of each int32 to its byte k.
  static Vec sevens(Vec v) {
    const auto part = [&](Vec shifted, unsigned mask) {
      return bit_and(shifted, _mm256_set1_epi32(static_cast<int>(mask)));
    };
    return bit_or(
        bit_or(part(v, 0x7F), part(_mm256_slli_epi32(v, 1), 0x7F00)),
        bit_or(part(_mm256_slli_epi32(v, 2), 0x7F0000), part(_mm256_slli_epi32(v, 3), 0x7F000000)));
  }
  static constexpr bool kPermutes = false;
  /// The sixteen-bit indices of each lane. Not by memory: small loads from a fresh vector are slow.
  class Indices {
   public:
    void take(Vec v) {
      const __m128i lanes[kLanes] = {_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)};
      unroll<kLanes>([&](int l) CRIA_INLINE {
        four_[l][0] = static_cast<std::uint64_t>(_mm_cvtsi128_si64(lanes[l]));
        four_[l][1] = static_cast<std::uint64_t>(_mm_extract_epi64(lanes[l], 1));
        asm("" : "+r"(four_[l][0]), "+r"(four_[l][1]));
      });
    }
    [[nodiscard]] std::size_t at(int lane, int i) const {
      return four_[lane][i / 4] >> (16 * (i % 4)) & 0xFFFF;
    }

   private:
    std::uint64_t four_[kLanes][2];
  };
  /// Two 8-byte entries per lane; index(lane, n): which.
  template <class F>
  CRIA_INLINE static Vec entries(const std::uint64_t* table, F index) {
    // Loads into both halves: a detour by general registers would cost shuffles.
    const auto pair = [&](int lane) CRIA_INLINE {
      const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(table + index(lane, 0)));
      const auto* const high = reinterpret_cast<const __m64*>(table + index(lane, 1));
      return _mm_castps_si128(_mm_loadh_pi(_mm_castsi128_ps(low), high));
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(pair(0)), pair(1), 1);
  }
  /// Four 4-byte entries per lane.
  template <class F>
  CRIA_INLINE static Vec entries(const std::uint32_t* table, F index) {
    const auto four = [&](int lane) CRIA_INLINE {
      __m128i v = _mm_loadu_si32(table + index(lane, 0));
      v = _mm_insert_epi32(v, static_cast<int>(table[index(lane, 1)]), 1);
      v = _mm_insert_epi32(v, static_cast<int>(table[index(lane, 2)]), 2);
      return _mm_insert_epi32(v, static_cast<int>(table[index(lane, 3)]), 3);
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(four(0)), four(1), 1);
  }

  static Vec madd16(Vec acc, Vec a, Vec b) { return Dot::pairs(acc, a, b); }

  /// Sums of two products as int16: exact, 2*128*127 < 2^15.
  static Vec products(Vec w, Vec a) { return _mm256_maddubs_epi16(w, a); }
  static Vec products_full(Vec w, Vec a) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
  }
  static Vec widen_sums(Vec acc, Vec p, Vec s) { return Dot::pairs(acc, p, s); }

  template <int Max>
  static Vec dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return scaled_dot<Max>(acc, w0, a0, w1, a1, splat16(1));
  }
  template <int Max>
  static Vec dot(Vec acc, Vec w, Vec a) {
    return scaled_dot<Max>(acc, w, a, splat16(1));
  }
  static Vec dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return scaled_dot_full(acc, w0, a0, w1, a1, splat16(1));
  }
  static Vec scale(Vec s, int j) {
    return _mm256_shuffle_epi8(s, splat16((2 * j + 1) << 8 | 2 * j));
  }
  template <int Max>
  static Vec scaled_dot(Vec acc, Vec w, Vec a, Vec s) {
    return widen_sums(acc, products(w, a), s);
  }
  template <int Max>
  static Vec scaled_dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    if constexpr (4 * Max * 127 < 32768)
      return widen_sums(acc, add16(products(w0, a0), products(w1, a1)), s);
    return widen_sums(widen_sums(acc, products(w0, a0), s), products(w1, a1), s);
  }
  static Vec scaled_dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    return scaled_dot_full(scaled_dot_full(acc, w0, a0, s), w1, a1, s);
  }
  static Vec scaled_dot_full(Vec acc, Vec w, Vec a, Vec s) {
    return widen_sums(acc, products_full(w, a), s);
  }

  /// Sums of neighbours of 16 int16, in every lane.
  static Vec pair_sums(const std::int16_t* p) {
    return _mm256_broadcastsi128_si256(_mm_hadd_epi16(load128(p), load128(p + 8)));
  }

  static Int8 sum_rows(const Vec (&v)[kPacks]) {
    // Unpacks, since horizontal additions take two cycles on Zen 3.
    const auto add = [](Vec a, Vec b) CRIA_INLINE { return _mm256_add_epi32(a, b); };
    return join_rows(add, neighbours(add, v[0], v[1]), neighbours(add, v[2], v[3]));
  }
  /// The same of int16 up to Max.
  template <int Max>
  static Int8 sum_narrow_rows(const Vec (&v)[kPacks]) {
    static_assert(2 * Max <= 32767);
    const Vec ab = neighbours(add16, v[0], v[1]), cd = neighbours(add16, v[2], v[3]),
              one = splat16(1);
    if constexpr (4 * Max <= 32767) return _mm256_madd_epi16(join_rows(add16, ab, cd), one);
    const auto add = [](Vec a, Vec b) CRIA_INLINE { return _mm256_add_epi32(a, b); };
    return join_rows(add, _mm256_madd_epi16(ab, one), _mm256_madd_epi16(cd, one));
  }
  /// Word `word` of every lane of the 8 rows, as f16.
  template <std::size_t word>
  static Float8 f16_of_lanes(const Vec (&v)[kPacks]) {
    const auto h = [&](int r) CRIA_INLINE {  // row r is lane r/4 of vector r%4
      const __m128i lane =
          r < 4 ? _mm256_castsi256_si128(v[r % 4]) : _mm256_extracti128_si256(v[r % 4], 1);
      return static_cast<short>(_mm_extract_epi16(lane, word));
    };
    return _mm256_cvtph_ps(_mm_setr_epi16(h(0), h(1), h(2), h(3), h(4), h(5), h(6), h(7)));
  }
  /// A small number of each of four rows, assembled in general registers, whose units are idle.
  template <class T>
  CRIA_INLINE static std::uint64_t four(RowPtr rows, std::size_t offset) {
    const auto number = [&](int r) CRIA_INLINE {
      T bits;
      std::memcpy(&bits, rows[r] + offset, sizeof bits);
      return std::uint64_t{bits};
    };
    constexpr int kBits = 8 * sizeof(T);
    std::uint64_t low = number(0) | number(1) << kBits, high = number(2) | number(3) << kBits;
    asm("" : "+r"(low), "+r"(high));  // GCC would take vectors for it
    return low | high << 2 * kBits;
  }
  static Float8 eight_f16(RowPtr rows, std::size_t offset) {
    return _mm256_cvtph_ps(
        _mm_set_epi64x(static_cast<long long>(four<std::uint16_t>(rows + 4, offset)),
                       static_cast<long long>(four<std::uint16_t>(rows, offset))));
  }
  /// Byte At of a block of Bytes bytes in each of the 8 rows.
  template <std::size_t Bytes, std::size_t At>
  static Int8 load_u8(RowPtr rows, std::size_t offset) {
    const std::uint64_t low = four<std::uint8_t>(rows, offset + At),
                        high = four<std::uint8_t>(rows + 4, offset + At);
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(low | high << 32)));
  }
  static Int8 load_u32(RowPtr rows, std::size_t offset) {
    const auto dword = [&](int r) CRIA_INLINE {
      int bits;
      std::memcpy(&bits, rows[r] + offset, sizeof bits);
      return bits;
    };
    return _mm256_setr_epi32(dword(0), dword(1), dword(2), dword(3), dword(4), dword(5), dword(6),
                             dword(7));
  }
  static Float8 load_f32(RowPtr rows, std::size_t offset) {
    return _mm256_castsi256_ps(load_u32(rows, offset));
  }
  /// Seven bits are an f16 but for a power of two.
  static Float8 half_of_ue4m3(Int8 e) {
    const __m256i number = _mm256_andnot_si256(_mm256_cmpeq_epi32(e, _mm256_set1_epi32(0x7F)), e);
    const __m256i bits = _mm256_slli_epi32(_mm256_and_si256(number, _mm256_set1_epi32(0x7F)), 7);
    const __m128i half =
        _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(0x1p7F));
  }
  /// The f16 at byte At of a block of Bytes bytes in each of the 8 rows.
  template <std::size_t Bytes, std::size_t At, bool Shared = true>
  static Float8 load_f16(RowPtr rows, std::size_t offset) {
    return eight_f16(rows, offset + At);
  }

 private:
  /// In every lane int32 of a and b in turn, the first two added to the others.
  template <class Add>
  CRIA_INLINE static Vec neighbours(Add add, Vec a, Vec b) {
    return add(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  }
  template <class Add>
  CRIA_INLINE static Vec join_rows(Add add, Vec ab, Vec cd) {
    return add(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  }
};

template <>
struct RowLanes<Avx2> : TwoRows<Avx2> {
  /// Sums of products of bytes may stay int16 up to this (products(), sum_narrow_rows()).
  static constexpr int kNarrow = 32767;
};

// Lanes of AVX2 with AVX-VNNI: two rows in a ymm register. See simd/row_lanes.h.

#if defined(__AVXVNNI__)
template <>
struct Dot256<AvxVnni> {
  static __m256i pairs(__m256i acc, __m256i a, __m256i b) {
    return _mm256_dpwssd_avx_epi32(acc, a, b);
  }
  static __m256i bytes(__m256i acc, __m256i u, __m256i s) {
    return _mm256_dpbusd_avx_epi32(acc, u, s);
  }
};

/// Scaled sums of small weights use AVX2's form, which has one instruction less: int32 sums would
/// need an int32 multiplication by the scale, two instructions on most processors.
template <>
struct RowLanes<AvxVnni> : TwoRows<AvxVnni> {
  static constexpr int kBias = 128;

  template <int Max>
  static Vec dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return dot_full(acc, w0, a0, w1, a1);
  }
  template <int Max>
  static Vec dot(Vec acc, Vec w, Vec a) {
    return Dot::bytes(acc, w, a);
  }
  static Vec dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return Dot::bytes(Dot::bytes(acc, w0, a0), w1, a1);
  }
  static Vec scaled_dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    return add_scaled(acc, dot_full(zero(), w0, a0, w1, a1), s);
  }
  static Vec scaled_dot_full(Vec acc, Vec w, Vec a, Vec s) {
    return add_scaled(acc, Dot::bytes(zero(), w, a), s);
  }

 private:
  static Vec add_scaled(Vec acc, Vec sums, Vec s) {
    const Vec wide = _mm256_srai_epi32(_mm256_slli_epi32(s, 16), 16);
    return _mm256_add_epi32(acc, _mm256_mullo_epi32(sums, wide));
  }
};
#endif  // defined(__AVXVNNI__)

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
