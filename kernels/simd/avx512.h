// Lanes of AVX-512 with VNNI and VBMI: four rows in a zmm register. See simd/row_lanes.h.
#pragma once

#include <immintrin.h>

#include <array>
#include <bit>

#include "kernels/simd/avx2.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <>
struct RowLanes<Avx512> : EightRows<Avx512> {
  static constexpr std::size_t kLanes = 4, kPacks = kRowGroup / kLanes;
  static constexpr int kBias = 128;
  using Vec = __m512i;

  static Vec load(RowPtr rows,
                  std::size_t offset) {  // inserts from memory: no shuffles but on Zen 4
    Vec v = _mm512_castsi128_si512(load128(rows[0] + offset));
    v = _mm512_inserti32x4(v, load128(rows[kPacks] + offset), 1);
    v = _mm512_inserti32x4(v, load128(rows[2 * kPacks] + offset), 2);
    return _mm512_inserti32x4(v, load128(rows[3 * kPacks] + offset), 3);
  }
  static Vec same(const void* p) { return _mm512_broadcast_i32x4(load128(p)); }

  static Vec zero() { return _mm512_setzero_si512(); }
  static Vec splat8(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
  static Vec splat16(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
  static Vec bit_and(Vec a, Vec b) { return _mm512_and_si512(a, b); }
  static Vec bit_or(Vec a, Vec b) { return _mm512_or_si512(a, b); }
  static Vec bit_xor(Vec a, Vec b) { return _mm512_xor_si512(a, b); }
  template <int N>
  static Vec take(Vec v, Vec mask) {
    if constexpr (N < 0) return bit_and(_mm512_slli_epi16(v, -N), mask);
    return bit_and(N == 0 ? v : _mm512_srli_epi16(v, N), mask);
  }
  static Vec add8(Vec a, Vec b) { return _mm512_add_epi8(a, b); }
  static Vec sub8(Vec a, Vec b) { return _mm512_sub_epi8(a, b); }
  static Vec abs8(Vec v) { return _mm512_abs_epi8(v); }
  static Vec add16(Vec a, Vec b) { return _mm512_add_epi16(a, b); }
  static Vec sub16(Vec a, Vec b) { return _mm512_sub_epi16(a, b); }
  static Vec mul16(Vec a, Vec b) { return _mm512_mullo_epi16(a, b); }
  template <int N>
  static Vec shr16(Vec v) {
    return _mm512_srli_epi16(v, N);
  }
  template <int N>
  static Vec shl16(Vec v) {
    return _mm512_slli_epi16(v, N);
  }
  static Vec add32(Vec a, Vec b) { return _mm512_add_epi32(a, b); }
  static Vec mul32(Vec a, Vec b) { return _mm512_mullo_epi32(a, b); }
  template <int N>
  static Vec shl32(Vec v) {
    return _mm512_slli_epi32(v, N);
  }
  /// Every int32 of acc plus the sum of its four bytes of v, of up to 63.
  static Vec sum_bytes(Vec acc, Vec v) { return _mm512_dpbusd_epi32(acc, v, splat8(1)); }
  static Vec lookup(Vec table, Vec index) { return _mm512_shuffle_epi8(table, index); }
  static Vec zip_low8(Vec a, Vec b) { return _mm512_unpacklo_epi8(a, b); }
  static Vec zip_high8(Vec a, Vec b) { return _mm512_unpackhi_epi8(a, b); }
  /// The first (last) eight bytes of a, then of b.
  static Vec join_low(Vec a, Vec b) { return _mm512_unpacklo_epi64(a, b); }
  static Vec join_high(Vec a, Vec b) { return _mm512_unpackhi_epi64(a, b); }
  static Vec widen_low(Vec v) { return _mm512_srai_epi16(_mm512_unpacklo_epi8(v, v), 8); }
  static Vec widen_high(Vec v) { return _mm512_srai_epi16(_mm512_unpackhi_epi8(v, v), 8); }

  /// w + x where v has bits (one bit in each byte).
  static Vec add_where(Vec w, Vec v, Vec bits, Vec x) {
    return _mm512_mask_add_epi8(w, _mm512_test_epi8_mask(v, bits), w, x);
  }
  /// Sixteen bytes of signs per lane, in the form that with_signs() wants: masks.
  struct Signs {
    alignas(64) std::uint64_t mask[8];
  };
  static Signs signs(Vec v) {
    alignas(64) static constexpr std::uint16_t kTranspose[32] = {
        0, 8,  16, 24, 1, 9,  17, 25, 2, 10, 18, 26, 3, 11, 19, 27,
        4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31};
    Signs s;
    _mm512_store_si512(s.mask, _mm512_permutexvar_epi16(_mm512_load_si512(kTranspose), v));
    keep_in_memory(s.mask);
    return s;
  }
  /// offset + w, or offset - w where the bits of bytes 2i and 2i + 1 say so.
  template <int i>
  static Vec with_signs(Vec w, const Signs& signs, Vec offset) {
    return _mm512_mask_sub_epi8(add8(offset, w), _cvtu64_mask64(signs.mask[i]), offset, w);
  }
  /// Counts how many of a, b are less than v; signed bytes.
  static Vec count_less(Vec v, Vec a, Vec b) {
    const Vec one = splat8(1), n = _mm512_maskz_mov_epi8(_mm512_cmpgt_epi8_mask(v, a), one);
    return _mm512_mask_add_epi8(n, _mm512_cmpgt_epi8_mask(v, b), n, one);
  }
  /// The low (high) bytes of 8 and 8 int16 of each lane.
  static Vec low_bytes(Vec a, Vec b) {
    return _mm512_packus_epi16(bit_and(a, splat16(0xFF)), bit_and(b, splat16(0xFF)));
  }
  static Vec high_bytes(Vec a, Vec b) { return _mm512_packus_epi16(shr16<8>(a), shr16<8>(b)); }
  /// The even (odd) int32 of a, then of b.
  static Vec even_dwords(Vec a, Vec b) {
    return _mm512_castps_si512(
        _mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0x88));
  }
  static Vec odd_dwords(Vec a, Vec b) {
    return _mm512_castps_si512(
        _mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0xDD));
  }
  /// Bits 7k … 7k+6 of each int32 to its byte k.
  static Vec sevens(Vec v) {
    const Vec from = _mm512_set1_epi64(0x352E27'20'150E0700);
    return bit_and(_mm512_multishift_epi64_epi8(from, v), splat8(0x7F));
  }
  /// A table of levels that the lowest bits of an index find, whatever the others are.
  template <const auto& levels>
  alignas(64) static constexpr auto kRepeated = [] {
    std::array<std::int8_t, 64> t{};
    constexpr std::size_t kPeriod = levels.size() > 4 ? 8 : 4;
    for (std::size_t i = 0; i < t.size(); ++i)
      t[i] = i % kPeriod < levels.size() ? levels[i % kPeriod] : std::int8_t{0};
    return t;
  }();
  /// Codebooks of up to 1,024 entries are looked up by permuting their codes, see look_up() in
  /// lanes/iq.h (gemv/avx512_row_codes.h: 2,048).
  static constexpr bool kPermutes = true, kNegates = false;
  /// The codes of N vectors of indices, two bytes each.
  template <class Book, std::size_t N>
  struct CodesOf {
    using TheBook = Book;
    Vec codes[2 * N];
    /// Sixteen bytes of each lane: the entries of the i-th two (four) indices.
    template <int i>
    CRIA_INLINE Vec entries() const {
      if constexpr (N == 1)
        return digits<Book, 2>(lookup(codes[i / 4], same(&kPairOfCodes<4 * (i % 4)>)));
      if constexpr (i % 2 == 0) return digits<Book, 3>(_mm512_unpacklo_epi16(codes[i / 2], zero()));
      return digits<Book, 3>(_mm512_unpackhi_epi16(codes[i / 2], zero()));
    }
  };
  /// Fills the codes of vector v for n independent registers, which share the loads of the tables.
  /// codes(p), index(p) and top(p) belong to register p.
  template <int n, class Codes, class Index, class Top>
  CRIA_INLINE static void find_codes(std::size_t v, Codes codes, Index index, Top top) {
    using Book = typename std::remove_cvref_t<decltype(codes(0))>::TheBook;
    Vec indices[n], tops[n], low[n], high[n];
    unroll<n>([&](int p) CRIA_INLINE { indices[p] = index(p), tops[p] = top(p); });
    find_planes<Book>(indices, tops, low, high);
    unroll<n>([&](int p) CRIA_INLINE {
      codes(p).codes[2 * v] = zip_low8(low[p], high[p]);
      codes(p).codes[2 * v + 1] = zip_high8(low[p], high[p]);
    });
  }
  /// The same in planes.
  template <class Book, int n>
  CRIA_INLINE static void find_planes(const Vec (&index)[n], const Vec (&top)[n], Vec (&low)[n],
                                      Vec (&high)[n]) {
    find_plane<Book::kSize>(Book::planes.low.data(), index, top, low);
    find_plane<Book::kSize>(Book::planes.high.data(), index, top, high);
  }
  /// out = table[index] for n registers, N bytes of table. index: the low bytes; top: what is above
  /// them, in the lowest bits.
  template <std::size_t N, int n>
  CRIA_INLINE static void find_plane(const std::uint8_t* table, const Vec (&index)[n],
                                     const Vec (&top)[n], Vec (&out)[n]) {
    __mmask64 bits[n][4];
    unroll<n>([&](int p) CRIA_INLINE {
      bits[p][0] = _mm512_movepi8_mask(index[p]);
      unroll<3>([&](int i) CRIA_INLINE {
        bits[p][i + 1] = _mm512_test_epi8_mask(top[p], splat8(1 << i));
      });
    });
    table_bytes<N>(table, index, bits, out);
  }
  template <class Book, std::size_t N, class F>
  CRIA_INLINE static void look_up(const Vec (&index)[N], const Vec (&top)[N], F&& f) {
    CodesOf<Book, N> codes;
    for (std::size_t v = 0; v < N; ++v)
      find_codes<1>(
          v, [&](int) CRIA_INLINE -> auto& { return codes; },
          [&](int) CRIA_INLINE { return index[v]; }, [&](int) CRIA_INLINE { return top[v]; });
    unroll<4>([&](auto j) CRIA_INLINE {
      f(j, codes.template entries<2 * j>(), codes.template entries<2 * j + 1>());
    });
  }
  /// The sixteen-bit indices of each lane, four in a register. Not by
  /// memory: small loads from a fresh vector are slow.
  class Indices {
   public:
    void take(Vec v) {
      const __m128i lanes[kLanes] = {_mm512_castsi512_si128(v), _mm512_extracti32x4_epi32(v, 1),
                                     _mm512_extracti32x4_epi32(v, 2),
                                     _mm512_extracti32x4_epi32(v, 3)};
      unroll<kLanes>([&](int l) CRIA_INLINE {
        four_[l][0] = static_cast<std::uint64_t>(_mm_cvtsi128_si64(lanes[l]));
        four_[l][1] = static_cast<std::uint64_t>(_mm_extract_epi64(lanes[l], 1));
      });
    }
    [[nodiscard]] CRIA_INLINE std::size_t at(int lane, int i) const {
      const std::uint64_t four = four_[lane][i / 4];
      return i % 4 == 3 ? four >> 48
                        : __bextr_u64(four, 16U << 8 | 16U * static_cast<unsigned>(i % 4));
    }

   private:
    alignas(64) std::uint64_t four_[kLanes][2];
  };
  /// Two 8-byte entries per lane; index(lane, n): which.
  template <class F>
  CRIA_INLINE static Vec entries(const std::uint64_t* table, F index) {
    const auto pair = [&](int lane) CRIA_INLINE {
      const auto low = _mm_castsi128_ps(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(table + index(lane, 0))));
      return _mm_castps_si128(
          _mm_loadh_pi(low, reinterpret_cast<const __m64*>(table + index(lane, 1))));
    };
    const __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(pair(0)), pair(1), 1);
    const __m256i second = _mm256_inserti128_si256(_mm256_castsi128_si256(pair(2)), pair(3), 1);
    const Vec v = _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
    return v;
  }

  static Vec madd16(Vec acc, Vec a, Vec b) { return _mm512_dpwssd_epi32(acc, a, b); }

  template <int Max>
  static Vec dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return dot_full(acc, w0, a0, w1, a1);
  }
  template <int Max>
  static Vec dot(Vec acc, Vec w, Vec a) {
    return _mm512_dpbusd_epi32(acc, w, a);
  }
  static Vec dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1) {
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(acc, w0, a0), w1, a1);
  }
  /// The scale in the low half of each int32, zero above: dpwssd then
  /// multiplies it by an int32 that fits in an int16.
  static Vec scale(Vec s, int j) {
    return _mm512_shuffle_epi8(
        s, _mm512_set1_epi32(static_cast<int>(0x80800000u) | (2 * j + 1) << 8 | 2 * j));
  }
  /// acc + t*s, |t| <= Bound; s >= 0 if t does not fit in an int16.
  template <int Bound>
  static Vec scale_sums(Vec acc, Vec t, Vec s) {
    if constexpr (Bound < 32768) return _mm512_dpwssd_epi32(acc, t, s);
    return _mm512_add_epi32(acc, _mm512_mullo_epi32(t, s));
  }
  template <int Max>
  static Vec scaled_dot(Vec acc, Vec w, Vec a, Vec s) {
    return scale_sums<4 * Max * 127>(acc, _mm512_dpbusd_epi32(zero(), w, a), s);
  }
  template <int Max>
  static Vec scaled_dot(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    return scale_sums<8 * Max * 127>(acc, dot_full(zero(), w0, a0, w1, a1), s);
  }
  static Vec scaled_dot_full(Vec acc, Vec w0, Vec a0, Vec w1, Vec a1, Vec s) {
    return scaled_dot<255>(acc, w0, a0, w1, a1, wide(s));
  }
  static Vec scaled_dot_full(Vec acc, Vec w, Vec a, Vec s) {
    return scaled_dot<255>(acc, w, a, wide(s));
  }
  static Vec wide(Vec s) { return _mm512_srai_epi32(_mm512_slli_epi32(s, 16), 16); }

  /// Sums of neighbours of 16 int16, in every lane.
  static Vec pair_sums(const std::int16_t* p) {
    return _mm512_broadcast_i32x4(_mm_hadd_epi16(load128(p), load128(p + 8)));
  }

  static Int8 sum_rows(const Vec (&v)[kPacks]) {
    const Vec halves =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const Vec sums = _mm512_add_epi32(halves, _mm512_shuffle_epi32(halves, _MM_PERM_BADC));
    return _mm512_castsi512_si256(
        _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0), sums));
  }
  /// Word `word` of every lane of the 8 rows, as f16.
  template <std::size_t word>
  static Float8 f16_of_lanes(const Vec (&v)[kPacks]) {
    static constexpr LaneConstant<std::uint16_t> kFrom = [] {  // row r is lane r/2 of vector r%2
      LaneConstant<std::uint16_t> from{};
      for (std::size_t r = 0; r < kRowGroup; ++r)
        from.at[r] = static_cast<std::uint16_t>(r % kPacks * 32 + r / kPacks * 8 + word);
      return from;
    }();
    const Vec from = _mm512_castsi128_si512(load128(&kFrom));
    return _mm256_cvtph_ps(_mm512_castsi512_si128(_mm512_permutex2var_epi16(v[0], from, v[1])));
  }
  /// Byte At of a block of Bytes bytes in each of the 8 rows: a masked load of four bytes needs no
  /// shuffle.
  template <std::size_t Bytes, std::size_t At>
  static Int8 load_u8(RowPtr rows, std::size_t offset) {
    constexpr std::size_t kFirst = At < Bytes - 4 ? At : Bytes - 4;
    return byte<At - kFirst>(load_u32(rows, offset + kFirst));
  }
  static Int8 load_u32(RowPtr rows, std::size_t offset) {
    __m256i v = _mm256_broadcastd_epi32(_mm_loadu_si32(rows[0] + offset));
    unroll<kRowGroup - 1>([&](int r) CRIA_INLINE {
      v = _mm256_mask_broadcastd_epi32(v, __mmask8(2 << r), _mm_loadu_si32(rows[r + 1] + offset));
    });
    return v;
  }
  static Float8 load_f32(RowPtr rows, std::size_t offset) {
    return _mm256_castsi256_ps(load_u32(rows, offset));
  }
  /// Seven bits are an f16 but for a power of two.
  static Float8 half_of_ue4m3(Int8 e) {
    const __m256i number = _mm256_maskz_and_epi32(
        _mm256_cmpneq_epi32_mask(e, _mm256_set1_epi32(0x7F)), e, _mm256_set1_epi32(0x7F));
    const __m128i half = _mm256_cvtepi32_epi16(_mm256_slli_epi32(number, 7));
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(0x1p7F));
  }
  /// The f16 at byte At of a block of Bytes bytes in each of the 8 rows. Shared: the block's first
  /// or last sixteen bytes, where it lies, are wanted for other reasons, too; else eight small
  /// loads are faster.
  template <std::size_t Bytes, std::size_t At, bool Shared = true>
  static Float8 load_f16(RowPtr rows, std::size_t offset) {
    if constexpr (!Shared) {
      return eight_f16(rows, offset + At);
    } else {
      constexpr std::size_t kFirst = At < 16 ? 0 : Bytes - 16;
      static_assert(At % 2 == 0 && kFirst % 2 == 0 && At - kFirst < 16);
      const Vec v[kPacks] = {load(rows, offset + kFirst), load(rows + 1, offset + kFirst)};
      return f16_of_lanes<(At - kFirst) / 2>(v);
    }
  }

 private:
  /// out = table[index] for n registers, N bytes; bits: the bits 7 … 10 of each index.
  template <std::size_t N, int n>
  CRIA_INLINE static void table_bytes(const std::uint8_t* table, const Vec (&index)[n],
                                      const __mmask64 (&bits)[n][4], Vec (&out)[n]) {
    if constexpr (N == 128) {
      const Vec first = _mm512_load_si512(table), second = _mm512_load_si512(table + 64);
      unroll<n>([&](int p)
                    CRIA_INLINE { out[p] = _mm512_permutex2var_epi8(first, index[p], second); });
    } else {
      constexpr int kBit = std::countr_zero(N) - 8;
      Vec upper[n];
      table_bytes<N / 2>(table, index, bits, out);
      table_bytes<N / 2>(table + N / 2, index, bits, upper);
      unroll<n>([&](int p) CRIA_INLINE {
        out[p] = _mm512_mask_blend_epi8(bits[p][kBit], out[p], upper[p]);
      });
    }
  }
  /// Codes at the bottom of 64 bits (Bits = 2) or 32 bits (3, two to a byte): one byte per digit,
  /// its level.
  template <class Book, int Bits>
  static Vec digits(Vec codes) {
    const Vec from = _mm512_set1_epi64(Bits == 2 ? 0x0E0C0A0806040200 : 0x2B2823200B080300);
    const Vec levels = _mm512_load_si512(kRepeated<Book::levels>.data());
    return _mm512_permutexvar_epi8(_mm512_multishift_epi64_epi8(from, codes), levels);
  }
  static constexpr std::uint8_t kNo = 0x80;
  template <int first>
  static constexpr LaneConstant<std::uint8_t> kPairOfCodes = {{first, first + 1, kNo, kNo, kNo, kNo,
                                                               kNo, kNo, first + 2, first + 3, kNo,
                                                               kNo, kNo, kNo, kNo, kNo}};
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
