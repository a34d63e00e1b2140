// Row-per-register GEMV of AVX-512: a register holds 64 columns of one row (in gemv.h: 16 columns
// of four). Activations are loaded once for eight rows, and weights without inserts, which take a
// shuffle each on Zen 4. K types and IQ4_XS are in avx512_row_k.h, others in avx512_row_ik.h.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx512_parts.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <class T>
CRIA_INLINE inline T load_bits(const std::byte* p) {
  T bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

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
/// 32 bytes, twice.
CRIA_INLINE inline __m512i load_twice(const void* p) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
/// The first (0) or the second (1) sixteen of each 32 of 128 activations.
template <int second>
CRIA_INLINE inline __m512i every_other_sixteen(const std::int8_t* p) {
  return _mm512_shuffle_i32x4(_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64),
                              second ? 0xDD : 0x88);
}

/// In every lane: a0 + a2, b0 + b2, a1 + a3, b1 + b3.
CRIA_INLINE inline __m512i add_neighbours(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
/// From add_neighbours(a, b) and (c, d): in every lane the sums of a, b, c and d.
CRIA_INLINE inline __m512i add_pairs(__m512i ab, __m512i cd) {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
/// From four pairs of rows, added as neighbours: the sums of the eight rows.
CRIA_INLINE inline __m256i sum_rows(const __m512i (&pairs)[4]) {
  const __m512i a = add_pairs(pairs[0], pairs[1]), b = add_pairs(pairs[2], pairs[3]);
  const __m512i halves =
      _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
  const __m512i sums = _mm512_add_epi32(halves, _mm512_shuffle_i32x4(halves, halves, 0xB1));
  return _mm512_castsi512_si256(
      _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 4, 5, 0, 0, 0, 0), sums));
}
/// The sums of the halves of four registers.
CRIA_INLINE inline __m256i sum_halves(const __m512i (&v)[4]) {
  const __m512i lanes = add_pairs(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3]));
  const __m512i sums = _mm512_add_epi32(lanes, _mm512_shuffle_i32x4(lanes, lanes, 0xB1));
  return _mm512_castsi512_si256(_mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0), sums));
}

/// A GEMV of T tokens that walks over super-blocks by Kernel::super_block().
template <class Kernel, DType type, int T, PrefetchMode mode>
class SuperBlocks {
 public:
  using Lanes = RowLanes<Avx512>;
  static constexpr PrefetchMode kMode = mode;

  /// Same interface as Gemv::run().
  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead,
                  const Activations& x, std::size_t first, __m256 (&acc)[T]) {
    constexpr std::size_t kBytes = sizeof(typename Format<type>::Block);
    const std::size_t n = x.cols / 256;
    const std::int8_t* q[T];
    const std::int16_t* sum[T];
    const float* d[T];
    unroll<T>([&](int t) CRIA_INLINE {
      acc[t] = _mm256_setzero_ps();
      q[t] = x.q + (first + t) * x.q_stride();
      sum[t] = x.sum + (first + t) * x.sum_stride();
      d[t] = x.d + (first + t) * n;
    });
    for (std::size_t b = 0; b < n; ++b)
      Kernel::super_block(rows, kHeaderBytes<type> + b * kBytes, ahead + b * kRowGroup * kBytes, q,
                          sum, d, b, acc);
  }
};

/// A GEMV that walks over kStep blocks of 32 by Kernel::step(); the last blocks are processed in
/// lanes.
template <class Kernel, DType type, std::size_t kStep, PrefetchMode mode>
class BlockSteps {
 public:
  using Lanes = RowLanes<Avx512>;
  static constexpr PrefetchMode kMode = mode;

  /// Same interface as Gemv::run() for one token.
  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead,
                  const Activations& x, std::size_t token, __m256 (&acc)[1]) {
    static_assert(kHeaderBytes<type> == 0);
    constexpr std::size_t kBytes = kStep * sizeof(typename Format<type>::Block);
    acc[0] = _mm256_setzero_ps();
    const std::size_t n_blocks = x.cols / 32, n_steps = n_blocks / kStep;
    const std::int8_t* const q = x.q + token * x.q_stride();
    const std::int16_t* const sum = x.sum + token * x.sum_stride();
    const float* const d = x.d + token * n_blocks;
    for (std::size_t i = 0; i < n_steps; ++i)
      Kernel::step(rows, i * kBytes, ahead + i * kRowGroup * kBytes, q + i * kStep * 32,
                   sum + i * kStep, d + i * kStep, acc[0]);
    Gemv<Avx512Parts<2>, type, 1, mode>::add_blocks(rows, ahead, x, token, n_steps * kStep,
                                                    n_blocks, acc);
  }
};

template <>
inline constexpr std::size_t kMostTogether<Avx512> = 3;

/// A kernel of one token; several are multiplied in lanes.
template <int T, class One, DType type, PrefetchMode mode>
using OneOrLanes = std::conditional_t<T == 1, One, Gemv<Avx512Parts<2>, type, T, mode>>;

template <DType type>
struct GemvOf<Avx512, type> {
  template <int T, PrefetchMode mode>
  using Kernel = Gemv<Avx512Parts<2>, type, T, mode>;
  static constexpr bool kStreams = !kHasCodebook<type>;
};

/// The 64 columns of a super-block in register j of four.
enum class RowOrder {
  Columns,  ///< in a row
  Halves,   ///< 32 of each half, as a shift of 64 bytes of two-bit numbers leaves them side by side
  Nibbles,  ///< 32 and the next 32 but one, as the low (the high) nibbles of 64 bytes have them
  Lanes,    ///< four times every other 16, where nibbles belong together in sixteen bytes
};
/// The sixteen of its columns in a lane of 16 bytes.
template <RowOrder order>
constexpr std::size_t row_sixteen(std::size_t j, std::size_t lane) {
  const std::size_t second = lane / 2, in_piece = lane % 2;
  if (order == RowOrder::Halves) return 8 * second + 2 * j + in_piece;
  if (order == RowOrder::Lanes) return 8 * (j / 2) + 2 * lane + j % 2;
  if (order == RowOrder::Nibbles) return 8 * (j / 2) + 4 * second + 2 * (j % 2) + in_piece;
  return 4 * j + lane;
}

/// The sixteen columns whose scale is int16 k of the scales of registers 2i and 2i + 1. Packed to
/// int16, every lane has four sums of four products of the first register, then four of the second.
template <RowOrder order>
constexpr std::size_t row_scale(std::size_t i, std::size_t k) {
  return row_sixteen<order>(2 * i + k % 8 / 4, k / 8);
}

/// Indices by which permutex2var selects these scales from n scales of a super-block in RowLanes,
/// eight int16 a vector. [lane][i]
template <RowOrder order, std::size_t n>
alignas(64) inline constexpr auto kLaneScales = [] {
  std::array<std::array<std::array<std::uint16_t, 32>, 2>, 4> from{};
  for (std::size_t lane = 0; lane < 4; ++lane)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 32; ++k) {
        const std::size_t scale = row_scale<order>(i, k) * n / 16;
        from[lane][i][k] = static_cast<std::uint16_t>(scale / 8 * 32 + lane * 8 + scale % 8);
      }
  return from;
}();

/// Indices by which permutexvar moves scale 4i + l to the upper halves of the int32 of lane l.
/// [lane][i]
alignas(64) inline constexpr auto kLaneScales32 = [] {
  std::array<std::array<std::array<std::uint16_t, 32>, 2>, 4> from{};
  for (std::size_t lane = 0; lane < 4; ++lane)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 32; ++k)
        from[lane][i][k] = static_cast<std::uint16_t>(lane * 8 + 4 * i + k / 8);
  return from;
}();

/// A register of sums for each of T tokens.
template <int T>
struct RowSums {
  __m512i of[T];
  CRIA_INLINE const __m512i& operator[](int t) const { return of[t]; }
};
/// f(t) for each of T tokens.
template <int T, class F>
CRIA_INLINE inline RowSums<T> sums_by(F f) {
  RowSums<T> sums;
  unroll<T>([&](int t) CRIA_INLINE { sums.of[t] = f(t); });
  return sums;
}

/// The activations of a super-block of T tokens as the registers have them.
template <int T>
class RowValues {
 public:
  template <RowOrder order, int zero>
  CRIA_INLINE RowValues(const std::int8_t* const (&tokens)[T], std::size_t at,
                        std::integral_constant<RowOrder, order>,
                        std::integral_constant<int, zero>) {
    unroll<4>([&](auto j) CRIA_INLINE {
      unroll<T>([&](int t) CRIA_INLINE {
        q_[j][t] = values<order, j>(tokens[t] + at);
        start_[j][t] = _mm512_setzero_si512();
        if constexpr (zero != 0)
          start_[j][t] = _mm512_sub_epi32(
              start_[j][t], _mm512_dpbusd_epi32(
                                start_[j][t], _mm512_set1_epi8(static_cast<char>(zero)), q_[j][t]));
      });
    });
  }
  /// Sums of four products with the weights w - zero of register j.
  [[nodiscard]] CRIA_INLINE RowSums<T> dot(int j, __m512i w) const {
    return sums_by<T>([&](auto t)
                          CRIA_INLINE { return _mm512_dpbusd_epi32(start_[j][t], w, q_[j][t]); });
  }
  /// The same with w, or -w where `negative` says so; zero is 0.
  [[nodiscard]] CRIA_INLINE RowSums<T> dot(int j, __m512i w, __mmask64 negative) const {
    const __m512i none = _mm512_setzero_si512();
    return sums_by<T>([&](auto t) CRIA_INLINE {
      return _mm512_dpbusd_epi32(none, w, _mm512_mask_sub_epi8(q_[j][t], negative, none, q_[j][t]));
    });
  }

  /// The value that the sums of register j and token t begin with.
  [[nodiscard]] CRIA_INLINE __m512i start(int j, int t) const { return start_[j][t]; }

 private:
  template <RowOrder order, int j>
  CRIA_INLINE static __m512i values(const std::int8_t* p) {
    constexpr std::size_t kFirst = 16 * row_sixteen<order>(j, 0),
                          kSecond = 16 * row_sixteen<order>(j, 2);
    if constexpr (order == RowOrder::Lanes)
      return every_other_sixteen<j % 2>(p + 128 * (j / 2));
    else if constexpr (kSecond == kFirst + 32)
      return _mm512_loadu_si512(p + kFirst);
    else
      return _mm512_inserti64x4(_mm512_castsi256_si512(half(p + kFirst)), half(p + kSecond), 1);
  }
  CRIA_INLINE static __m256i half(const std::int8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  __m512i q_[4][T], start_[4][T];
};

/// A type in the registers; specialised in avx512_row_k.h, avx512_row_ik.h and
/// avx512_row_gather.h.
/// - Block, kOrder: see row_sixteen()
/// - kZero: zero point of every weight
/// - Rows(rows, offset): values decoded for the eight rows of a group together
/// - d(): scales of the eight rows
/// - each(r, p, x, f): for row r with its block at p, calls twice f(products of a register, of the
///   next, their scales by row_scale()); if those do not fit in int16, instead
/// - total(r, p, x): the scaled products in sixteen sums
///   (x: RowValues<T>; products and totals: RowSums<T>)
/// - more(sums): optional: added to the integer sums of the eight rows
///
/// Types with mins also have dmin() and one of
/// - mins(p, q): of the blocks of two rows: 16 int16 each
/// - min_sums(sum): of the eight rows, times the sums of sixteen activations each
template <DType type>
struct RowType;

/// Rows of a type whose d and scales are decoded in lanes.
template <DType type, RowOrder order>
class RowScales {
 public:
  using Lanes = LaneType<RowLanes<Avx512>, type>;

  RowScales(const std::byte* const* rows, std::size_t offset) : d_(Lanes::d(rows, offset)) {
    Lanes::scales(rows, offset, scales_[0]);
    Lanes::scales(rows + 1, offset, scales_[1]);
  }
  [[nodiscard]] __m256 d() const { return d_; }
  /// Scales of registers 2i and 2i + 1 of row r.
  [[nodiscard]] CRIA_INLINE __m512i scales(int r, int i) const {
    const __m512i from = _mm512_load_si512(kLaneScales<order, Lanes::kScales>[r / 2][i].data());
    return _mm512_permutex2var_epi16(scales_[r % 2][0], from, scales_[r % 2][kLast]);
  }
  /// Scale 4i + l of row r in lane l, as int32; for types with eight scales.
  [[nodiscard]] CRIA_INLINE __m512i scales32(int r, int i) const {
    const __m512i from = _mm512_load_si512(kLaneScales32[r / 2][i].data());
    return _mm512_srai_epi32(_mm512_permutexvar_epi16(from, scales_[r % 2][0]), 16);
  }
  /// The first eight of rows k, k + 2, k + 4 and k + 6, a lane each; with i = 1 the second eight.
  [[nodiscard]] __m512i lanes(int k, int i = 0) const { return scales_[k][i]; }

 private:
  static constexpr int kLast = Lanes::kScales == 16 ? 1 : 0;
  __m256 d_;
  __m512i scales_[2][kLast + 1];  // row r: lane r/2 of [r%2], eight int16 of each vector
};

/// The GEMV of T tokens of a RowType: weights are decoded once for all of them.
template <DType type, int T, PrefetchMode mode>
class RowGemv : public SuperBlocks<RowGemv<type, T, mode>, type, T, mode> {
  friend class SuperBlocks<RowGemv, type, T, mode>;
  using W = RowType<type>;
  using Block = typename W::Block;
  static constexpr bool kMins = Format<type>::kTraits.has_min;
  static constexpr bool kMinSums = requires(const typename W::Rows& rows) {
    rows.min_sums(nullptr);
  };

  CRIA_INLINE static void super_block(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                                      const std::byte* ahead, const std::int8_t* const (&q)[T],
                                      const std::int16_t* const (&sums)[T],
                                      const float* const (&scales)[T], std::size_t b,
                                      __m256 (&acc)[T]) {
    // Not const: GCC keeps const structs in memory.
    RowValues<T> x(q, 256 * b, std::integral_constant<RowOrder, W::kOrder>{},
                   std::integral_constant<int, W::kZero>{});
    typename W::Rows decoded(rows, offset);
    const auto row = [&](int r) CRIA_INLINE {
      RowSums<T> total = sums_by<T>([](auto) CRIA_INLINE { return _mm512_setzero_si512(); });
      if constexpr (requires { decoded.total(r, rows[r], x); })
        total = decoded.total(r, rows[r] + offset, x);
      else
        decoded.each(r, rows[r] + offset, x,
                     [&](const RowSums<T>& first, const RowSums<T>& second, __m512i scale)
                         CRIA_INLINE {
                           total = sums_by<T>([&](auto t) CRIA_INLINE {
                             return _mm512_dpwssd_epi32(
                                 total[t], _mm512_packs_epi32(first[t], second[t]), scale);
                           });
                         });
      unroll<T>([&](int t) CRIA_INLINE { pin(total.of[t]); });
      return total;
    };
    __m512i pairs[T][4], mins[T][4];
    unroll<4>([&](int i) CRIA_INLINE {
      if constexpr (mode == PrefetchMode::InOrder) {
        prefetch_far<kRowGroup * sizeof(Block), 4>(ahead, i, [&]() CRIA_INLINE {
          prefetch_near<sizeof(Block)>(rows[2 * i] + offset);
          prefetch_near<sizeof(Block)>(rows[2 * i + 1] + offset);
        });
      } else {
        prefetch_stream<sizeof(Block)>(rows[2 * i] + offset, stream_distance());
        prefetch_stream<sizeof(Block)>(rows[2 * i + 1] + offset, stream_distance());
      }
      RowSums<T> first = row(2 * i), second = row(2 * i + 1);
      unroll<T>([&](int t) CRIA_INLINE { pairs[t][i] = add_neighbours(first[t], second[t]); });
      if constexpr (kMins && !kMinSums) {
        const __m512i min = decoded.mins(rows[2 * i] + offset, rows[2 * i + 1] + offset);
        unroll<T>([&](int t) CRIA_INLINE {
          mins[t][i] =
              _mm512_dpwssd_epi32(_mm512_setzero_si512(), min, load_twice(sums[t] + 16 * b));
        });
      }
    });
    unroll<T>([&](int t) CRIA_INLINE {
      const std::int16_t* const sum = sums[t] + 16 * b;
      const __m256 da = _mm256_set1_ps(scales[t][b]);
      __m256i isum = sum_rows(pairs[t]);
      if constexpr (requires { decoded.more(sum); })
        isum = _mm256_add_epi32(isum, decoded.more(sum));
      acc[t] = _mm256_fmadd_ps(_mm256_mul_ps(decoded.d(), da), _mm256_cvtepi32_ps(isum), acc[t]);
      if constexpr (kMins) {
        __m256i min;
        if constexpr (kMinSums)
          min = decoded.min_sums(sum);
        else
          min = sum_halves(mins[t]);
        acc[t] =
            _mm256_fnmadd_ps(_mm256_mul_ps(decoded.dmin(), da), _mm256_cvtepi32_ps(min), acc[t]);
      }
    });
  }
};

template <DType type>
requires requires { sizeof(RowType<type>); }
struct GemvOf<Avx512, type> {
  template <int T, PrefetchMode mode>
  using Kernel = RowGemv<type, T, mode>;
  static constexpr bool kStreams = true;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
