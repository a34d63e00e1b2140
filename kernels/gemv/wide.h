// Products of one token on AVX-512 for K types and IQ4_XS: a register holds 64 columns of one row
// (in gemv.h: 16 columns of four), so that activations are loaded once for eight rows, and weights
// without inserts, which take a shuffle each on Zen 4.
#pragma once

#include <type_traits>

#include "kernels/gemv/wide_walk.h"

namespace cria {

/// Which 64 columns of a super-block register j of four holds.
enum class WideOrder {
  Columns,  ///< in a row
  Halves,   ///< 32 of each half, as a shift of 64 bytes of two-bit numbers leaves them side by side
  Nibbles,  ///< 32 and the next 32 but one, as the low (the high) nibbles of 64 bytes have them
  Lanes,    ///< four times every other 16, where nibbles belong together in sixteen bytes
};
/// The sixteen of its columns in a lane of 16 bytes.
template <WideOrder order>
constexpr std::size_t wide_sixteen(std::size_t j, std::size_t lane) {
  const std::size_t second = lane / 2, in_piece = lane % 2;
  if (order == WideOrder::Halves) return 8 * second + 2 * j + in_piece;
  if (order == WideOrder::Lanes) return 8 * (j / 2) + 2 * lane + j % 2;
  if (order == WideOrder::Nibbles) return 8 * (j / 2) + 4 * second + 2 * (j % 2) + in_piece;
  return 4 * j + lane;
}

/// The sixteen that int16 k of the scales of registers 2i and 2i + 1 belongs to: sums of four
/// products, packed to int16, lie there four of the first register, four of the second in every
/// lane.
template <WideOrder order>
constexpr std::size_t wide_scale(std::size_t i, std::size_t k) {
  return wide_sixteen<order>(2 * i + k % 8 / 4, k / 8);
}

/// Where permutex2var finds those scales, as RowLanes have them: n of a
/// super-block, eight int16 a vector. [lane][i]
template <WideOrder order, std::size_t n>
alignas(64) inline constexpr auto kLaneScales = [] {
  std::array<std::array<std::array<std::uint16_t, 32>, 2>, 4> from{};
  for (std::size_t lane = 0; lane < 4; ++lane)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 32; ++k) {
        const std::size_t scale = wide_scale<order>(i, k) * n / 16;
        from[lane][i][k] = static_cast<std::uint16_t>(scale / 8 * 32 + lane * 8 + scale % 8);
      }
  return from;
}();

/// Where permutexvar finds scale 4i + l for the upper halves of the int32 of lane l. [lane][i]
alignas(64) inline constexpr auto kLaneScales32 = [] {
  std::array<std::array<std::array<std::uint16_t, 32>, 2>, 4> from{};
  for (std::size_t lane = 0; lane < 4; ++lane)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 32; ++k)
        from[lane][i][k] = static_cast<std::uint16_t>(lane * 8 + 4 * i + k / 8);
  return from;
}();

/// The activations of a super-block as the registers have them.
class WideValues {
 public:
  template <WideOrder order, int zero>
  CRIA_INLINE WideValues(const std::int8_t* p, std::integral_constant<WideOrder, order>,
                         std::integral_constant<int, zero>) {
    unroll<4>([&](auto j) CRIA_INLINE {
      constexpr std::size_t kFirst = 16 * wide_sixteen<order>(j, 0),
                            kSecond = 16 * wide_sixteen<order>(j, 2);
      if constexpr (order == WideOrder::Lanes)
        q_[j] = every_other_sixteen<j % 2>(p + 128 * (j / 2));
      else if constexpr (kSecond == kFirst + 32)
        q_[j] = _mm512_loadu_si512(p + kFirst);
      else
        q_[j] = _mm512_inserti64x4(_mm512_castsi256_si512(half(p + kFirst)), half(p + kSecond), 1);
      start_[j] = _mm512_setzero_si512();
      if constexpr (zero != 0)
        start_[j] = _mm512_sub_epi32(
            start_[j],
            _mm512_dpbusd_epi32(start_[j], _mm512_set1_epi8(static_cast<char>(zero)), q_[j]));
    });
  }
  /// Sums of four products with the weights w - zero of register j.
  [[nodiscard]] CRIA_INLINE __m512i dot(int j, __m512i w) const {
    return _mm512_dpbusd_epi32(start_[j], w, q_[j]);
  }
  /// The same with w, or -w where `negative` says so; zero is 0.
  [[nodiscard]] CRIA_INLINE __m512i dot(int j, __m512i w, __mmask64 negative) const {
    const __m512i none = _mm512_setzero_si512();
    return _mm512_dpbusd_epi32(none, w, _mm512_mask_sub_epi8(q_[j], negative, none, q_[j]));
  }

 private:
  CRIA_INLINE static __m256i half(const std::int8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  __m512i q_[4], start_[4];
};

/// The types that are multiplied so by default. (wide_blocks.h, wide_q8.h and wide_codes.h are ways
/// of their own; wide_iq.h is Intel's.)
constexpr bool is_wide(DType type) {
  switch (type) {
    case DType::Q2_K:
    case DType::Q3_K:
    case DType::Q4_K:
    case DType::Q5_K:
    case DType::Q6_K:
    case DType::IQ4_XS:
      return true;
    default:
      return false;
  }
}

/// How a type lies in the registers; specialised in wide_k.h and wide_iq.h.
///   Block, kOrder          of wide_sixteen()
///   kZero                  what is added to every weight
///   Rows(rows, offset)     what is decoded for the eight rows of a group together
///     d()                  of the eight rows
///     each(r, p, x, f)     for row r, whose block is at p, twice: f(the products of a register,
///     those of the
///                          next, their scales as wide_scale() says), or, where those do not fit in
///                          an int16
///     total(r, p, x)       all of that, in sixteen sums
///     more(sums)           optional: what the integer sums of the eight rows lack
/// and for types with mins
///     dmin()
///     mins(p, q)           of two rows' blocks: 16 int16 each, or
///     min_sums(sum)        of the eight rows, times the sums of sixteen activations each
template <DType type>
struct WideType;

/// Rows of a type whose d and scales are decoded in lanes.
template <DType type, WideOrder order>
class WideScales {
 public:
  using Lanes = LaneType<RowLanes<Avx512>, type>;

  WideScales(const std::byte* const* rows, std::size_t offset) : d_(Lanes::d(rows, offset)) {
    Lanes::scales(rows, offset, scales_[0]);
    Lanes::scales(rows + 1, offset, scales_[1]);
  }
  [[nodiscard]] __m256 d() const { return d_; }
  /// Those of registers 2i and 2i + 1 of row r.
  [[nodiscard]] CRIA_INLINE __m512i scales(int r, int i) const {
    const __m512i from = _mm512_load_si512(kLaneScales<order, Lanes::kScales>[r / 2][i].data());
    return _mm512_permutex2var_epi16(scales_[r % 2][0], from, scales_[r % 2][kLast]);
  }
  /// Scale 4i + l of row r in lane l, as int32. Of eight scales.
  [[nodiscard]] CRIA_INLINE __m512i scales32(int r, int i) const {
    const __m512i from = _mm512_load_si512(kLaneScales32[r / 2][i].data());
    return _mm512_srai_epi32(_mm512_permutexvar_epi16(from, scales_[r % 2][0]), 16);
  }
  /// The first eight of rows k, k + 2, k + 4 and k + 6, a lane each.
  [[nodiscard]] __m512i lanes(int k) const { return scales_[k][0]; }

 private:
  static constexpr int kLast = Lanes::kScales == 16 ? 1 : 0;
  __m256 d_;
  __m512i scales_[2][kLast + 1];  // row r: lane r/2 of [r%2], eight int16 of each vector
};

/// The product of one token as its WideType says.
template <DType type, Reading reading = Reading::InOrder>
class WideGemv : public SuperBlocks<WideGemv<type, reading>, type, reading> {
  friend class SuperBlocks<WideGemv, type, reading>;
  using W = WideType<type>;
  using Block = typename W::Block;
  static constexpr bool kMins = Format<type>::kTraits.has_min;
  static constexpr bool kMinSums = requires(const typename W::Rows& rows) {
    rows.min_sums(nullptr);
  };

  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* q,
                                      const std::int16_t* sum, __m256 da, __m256& acc) {
    const WideValues x(q, std::integral_constant<WideOrder, W::kOrder>{},
                       std::integral_constant<int, W::kZero>{});
    const typename W::Rows decoded(rows, offset);
    const auto row = [&](int r) CRIA_INLINE {
      __m512i total = _mm512_setzero_si512();
      if constexpr (requires { decoded.total(r, rows[r], x); })
        total = decoded.total(r, rows[r] + offset, x);
      else
        decoded.each(
            r, rows[r] + offset, x, [&](__m512i first, __m512i second, __m512i scales) CRIA_INLINE {
              total = _mm512_dpwssd_epi32(total, _mm512_packs_epi32(first, second), scales);
            });
      pin(total);
      return total;
    };
    __m512i pairs[4], mins[4];
    unroll<4>([&](auto i) CRIA_INLINE {
      if constexpr (reading == Reading::InOrder) {
        fetch_far<kRowGroup * sizeof(Block), 4>(ahead, i);
        fetch_near<sizeof(Block)>(rows[2 * i] + offset);
        fetch_near<sizeof(Block)>(rows[2 * i + 1] + offset);
      } else {
        fetch_stream<sizeof(Block), reading>(rows[2 * i] + offset);
        fetch_stream<sizeof(Block), reading>(rows[2 * i + 1] + offset);
      }
      const __m512i first = row(2 * i);
      pairs[i] = add_neighbours(first, row(2 * i + 1));
      if constexpr (kMins && !kMinSums) {
        const __m512i min = decoded.mins(rows[2 * i] + offset, rows[2 * i + 1] + offset);
        mins[i] = _mm512_dpwssd_epi32(_mm512_setzero_si512(), min, load_twice(sum));
      }
    });
    __m256i isum = sum_rows(pairs);
    if constexpr (requires { decoded.more(sum); }) isum = _mm256_add_epi32(isum, decoded.more(sum));
    acc = _mm256_fmadd_ps(_mm256_mul_ps(decoded.d(), da), _mm256_cvtepi32_ps(isum), acc);
    if constexpr (kMins) {
      __m256i min;
      if constexpr (kMinSums)
        min = decoded.min_sums(sum);
      else
        min = sum_halves(mins);
      acc = _mm256_fnmadd_ps(_mm256_mul_ps(decoded.dmin(), da), _mm256_cvtepi32_ps(min), acc);
    }
  }
};

template <DType type>
requires(is_wide(type)) struct OneToken<Avx512, type> {
  template <Reading reading>
  using Reads = WideGemv<type, reading>;
  using Type = Reads<Reading::InOrder>;
};

}  // namespace cria
