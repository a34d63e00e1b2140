// Products of one token on AVX-512 for types of two and three bits, which wait for arithmetic before they
// wait for memory: a register holds 64 columns of one row (in gemv.h: 16 columns of four), so that
// activations are loaded once for eight rows, and weights without inserts.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstring>

#include "kernels/blocks.h"
#include "kernels/gemv_k.h"
#include "kernels/simd/avx512_pair.h"

namespace cria {

/// Register j of four holds, in lanes of 16 bytes, these sixteens of a super-block's columns: what a shift of
/// 64 bytes of two-bit numbers leaves side by side.
constexpr std::size_t wide_group(std::size_t j, std::size_t lane) { return lane / 2 * 8 + 2 * j + lane % 2; }

/// Where int16 k of the scales of registers 2i and 2i + 1 comes from: sums of four products, packed to int16,
/// lie there four of the first register, four of the second in every lane.
constexpr std::size_t wide_scale(std::size_t i, std::size_t k) {
  return wide_group(2 * i + k % 8 / 4, k / 8);
}

/// 64 bytes, once: GCC would load them again for every use, and they lie across two cache lines.
CRIA_INLINE inline __m512i load_once(const std::byte* p) {
  __m512i v = _mm512_loadu_si512(p);
  pin(v);
  return v;
}

/// How a type lies in the registers; specialised below.
///   Block, kZero           what is added to every weight
///   Rows(rows, offset)     what is decoded for the eight rows of a group together
///     d()                  of the eight rows
///     each(r, p, f)        f(j, weights, scales) for the four registers of row r, whose block is at p;
///     scales:
///                          an int16 in the low half of every int32, zero above
/// and for types with mins
///     dmin()
///     mins(p, q)           of two rows' blocks: 16 int16 each
template <DType type>
struct WideType;

template <>
struct WideType<DType::Q2_K> {
  using Block = BlockQ2_K;
  static constexpr int kZero = 0;

  class Rows {
   public:
    Rows(const std::byte* const* rows, std::size_t offset)
        : ends_(dwords(rows, offset + offsetof(Block, d))) {}
    [[nodiscard]] __m256 d() const { return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(ends_)); }
    [[nodiscard]] __m256 dmin() const {
      return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(ends_, 16)));
    }
    template <class F>
    CRIA_INLINE void each(int, const std::byte* p, F f) const {
      const __m512i q = load_once(p + offsetof(Block, q)), three = _mm512_set1_epi8(3);
      const __m512i scales =
          _mm512_and_si512(RowLanes<Avx512>::same(p + offsetof(Block, scales)), _mm512_set1_epi8(15));
      unroll<2>([&](auto i) CRIA_INLINE {
        const __m512i spread = _mm512_load_si512(kSpreadScales[i].data());
        f(i, RowLanes<Avx512>::take<4 * i>(q, three), RowLanes<Avx512>::take<4 * i + 2>(q, three),
          _mm512_shuffle_epi8(scales, spread));
      });
    }
    [[nodiscard]] CRIA_INLINE __m512i mins(const std::byte* p, const std::byte* q) const {
      const auto load = [](const std::byte* block) CRIA_INLINE {
        return RowLanes<Avx512>::load128(block + offsetof(Block, scales));
      };
      const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(load(p)), load(q), 1);
      return _mm512_cvtepu8_epi16(_mm256_and_si256(_mm256_srli_epi16(both, 4), _mm256_set1_epi8(15)));
    }

   private:
    /// Four bytes of each row; a masked load needs no shuffle.
    CRIA_INLINE static __m256i dwords(const std::byte* const* rows, std::size_t offset) {
      __m256i v = _mm256_broadcastd_epi32(_mm_loadu_si32(rows[0] + offset));
      unroll<kRowGroup - 1>([&](auto r) CRIA_INLINE {
        v = _mm256_mask_broadcastd_epi32(v, __mmask8(2 << r), _mm_loadu_si32(rows[r + 1] + offset));
      });
      return v;
    }
    alignas(64) static constexpr auto kSpreadScales = [] {
      std::array<std::array<std::uint8_t, 64>, 2> from{};
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t k = 0; k < 64; ++k)
          from[i][k] = k % 2 == 0 ? static_cast<std::uint8_t>(wide_scale(i, k / 2)) : std::uint8_t{0x80};
      return from;
    }();

    __m256i ends_;
  };
};

template <>
struct WideType<DType::Q3_K> {
  using Block = BlockQ3_K;
  using Lanes = LaneType<RowLanes<Avx512>, DType::Q3_K>;
  static constexpr int kZero = Lanes::kZero;

  class Rows {
   public:
    Rows(const std::byte* const* rows, std::size_t offset) : d_(Lanes::d(rows, offset)) {
      Lanes::scales(rows, offset, scales_[0]);
      Lanes::scales(rows + 1, offset, scales_[1]);
    }
    [[nodiscard]] __m256 d() const { return d_; }
    template <class F>
    CRIA_INLINE void each(int r, const std::byte* p, F f) const {
      const __m512i lo = load_once(p + offsetof(Block, lo)), three = _mm512_set1_epi8(3);
      const auto* const third = reinterpret_cast<const __m256i*>(p + offsetof(Block, hi));
      // Bits 0 … 3 of every byte are now those of the registers 0 … 3; what else is shifted in is not looked
      // at.
      const __m512i hi = _mm512_srlv_epi32(_mm512_broadcast_i64x4(_mm256_loadu_si256(third)),
                                           _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4));
      const auto weights = [&](auto j) CRIA_INLINE {
        return _mm512_or_si512(RowLanes<Avx512>::take<2 * j>(lo, three),
                               RowLanes<Avx512>::take<j - 2>(hi, _mm512_set1_epi8(4)));
      };
      const auto& s = scales_[r % 2];
      unroll<2>([&](auto i) CRIA_INLINE {
        const __m512i spread = _mm512_load_si512(kSpreadScales[r / 2][i].data());
        f(i, weights(std::integral_constant<int, 2 * i>{}), weights(std::integral_constant<int, 2 * i + 1>{}),
          _mm512_permutex2var_epi16(s[0], spread, s[1]));
      });
    }

   private:
    /// For each lane of the scales, as they are decoded.
    alignas(64) static constexpr auto kSpreadScales = [] {
      std::array<std::array<std::array<std::uint16_t, 32>, 2>, 4> from{};
      for (std::size_t lane = 0; lane < 4; ++lane)
        for (std::size_t i = 0; i < 2; ++i)
          for (std::size_t k = 0; k < 32; ++k) {
            const std::size_t scale = wide_scale(i, k);
            from[lane][i][k] = static_cast<std::uint16_t>(scale / 8 * 32 + lane * 8 + scale % 8);
          }
      return from;
    }();

    __m256 d_;
    __m512i scales_[2][2];  // row r: lane r/2 of [r%2], eight int16 of each of the two
  };
};

template <DType type>
class WideGemv {
  using W = WideType<type>;
  using Block = typename W::Block;
  static constexpr bool kMins = decode_traits(type).has_min;

 public:
  using Lanes = RowLanes<Avx512>;

  /// As Gemv::run() for one token.
  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead, const Activations& x,
                  std::size_t token, __m256 (&acc)[1]) {
    acc[0] = _mm256_setzero_ps();
    const std::int8_t* const q = x.q + token * x.q_stride();
    const std::int16_t* const sum = x.sum + token * x.sum_stride();
    const float* const d = x.d + token * x.d_stride();
    for (std::size_t b = 0; b < x.d_stride(); ++b)
      super_block(rows, b * sizeof(Block), ahead + b * kRowGroup * sizeof(Block), q + 256 * b, sum + 16 * b,
                  _mm256_set1_ps(d[b]), acc[0]);
  }

 private:
  /// The activations of a super-block as the registers have them, and what kZero adds to the products, for
  /// each int32 less.
  struct Values {
    __m512i q[4], start[4];
    CRIA_INLINE explicit Values(const std::int8_t* p) {
      const auto load = [](const std::int8_t* at)
                            CRIA_INLINE { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); };
      unroll<4>([&](auto j) CRIA_INLINE {
        q[j] = _mm512_inserti64x4(_mm512_castsi256_si512(load(p + 32 * j)), load(p + 128 + 32 * j), 1);
        start[j] = _mm512_setzero_si512();
        if constexpr (W::kZero != 0)
          start[j] =
              _mm512_sub_epi32(start[j], _mm512_dpbusd_epi32(start[j], _mm512_set1_epi8(W::kZero), q[j]));
      });
    }
  };

  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* q, const std::int16_t* sum,
                                      __m256 da, __m256& acc) {
    const Values x(q);
    const typename W::Rows decoded(rows, offset);
    const auto row = [&](int r) CRIA_INLINE {
      __m512i total = _mm512_setzero_si512();
      decoded.each(r, rows[r] + offset, [&](auto i, __m512i w0, __m512i w1, __m512i scales) CRIA_INLINE {
        const __m512i first = _mm512_dpbusd_epi32(x.start[2 * i], w0, x.q[2 * i]);
        const __m512i second = _mm512_dpbusd_epi32(x.start[2 * i + 1], w1, x.q[2 * i + 1]);
        total = _mm512_dpwssd_epi32(total, _mm512_packs_epi32(first, second), scales);
      });
      pin(total);
      return total;
    };
    __m512i pairs[4], mins[4];
    unroll<4>([&](auto i) CRIA_INLINE {
      fetch_far<kRowGroup * sizeof(Block), 4>(ahead, i);
      fetch_near<sizeof(Block)>(rows[2 * i] + offset);
      fetch_near<sizeof(Block)>(rows[2 * i + 1] + offset);
      const __m512i first = row(2 * i);
      pairs[i] = add_neighbours(first, row(2 * i + 1));
      if constexpr (kMins) {
        const __m512i sums =
            _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sum)));
        mins[i] = _mm512_dpwssd_epi32(_mm512_setzero_si512(),
                                      decoded.mins(rows[2 * i] + offset, rows[2 * i + 1] + offset), sums);
      }
    });
    acc = _mm256_fmadd_ps(_mm256_mul_ps(decoded.d(), da), _mm256_cvtepi32_ps(sum_rows(pairs)), acc);
    if constexpr (kMins)
      acc = _mm256_fnmadd_ps(_mm256_mul_ps(decoded.dmin(), da), _mm256_cvtepi32_ps(sum_halves(mins)), acc);
  }

  /// In every lane: a0 + a2, b0 + b2, a1 + a3, b1 + b3.
  CRIA_INLINE static __m512i add_neighbours(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  }
  /// Of the results of add_neighbours(a, b) and (c, d): in every lane the sums of a's, b's, c's and d's.
  CRIA_INLINE static __m512i add_pairs(__m512i ab, __m512i cd) {
    return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
  }
  /// Of four pairs of rows, added as neighbours: the sums of the eight rows.
  CRIA_INLINE static __m256i sum_rows(const __m512i (&pairs)[4]) {
    const __m512i a = add_pairs(pairs[0], pairs[1]), b = add_pairs(pairs[2], pairs[3]);
    const __m512i halves =
        _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
    const __m512i sums = _mm512_add_epi32(halves, _mm512_shuffle_i32x4(halves, halves, 0xB1));
    return _mm512_castsi512_si256(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 4, 5, 0, 0, 0, 0), sums));
  }
  /// The sums of the halves of four registers.
  CRIA_INLINE static __m256i sum_halves(const __m512i (&v)[4]) {
    const __m512i lanes = add_pairs(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3]));
    const __m512i sums = _mm512_add_epi32(lanes, _mm512_shuffle_i32x4(lanes, lanes, 0xB1));
    return _mm512_castsi512_si256(
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0), sums));
  }
};

template <DType type>
struct OneToken<Avx512, type> {
  using Type = Gemv<Avx512Pair, type, 1>;
};
template <>
struct OneToken<Avx512, DType::Q2_K> {
  using Type = WideGemv<DType::Q2_K>;
};
template <>
struct OneToken<Avx512, DType::Q3_K> {
  using Type = WideGemv<DType::Q3_K>;
};

}  // namespace cria
