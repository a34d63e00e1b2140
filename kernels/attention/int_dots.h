// Integer dot products of attention over a Q8_0 cache: int8 columns in lanes times int16 operands,
// exact in int32. IntDots<Isa> works on the layout of attention.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The largest integer of an operand: 127·256, so that its high byte, rounded, stays within ±127.
inline constexpr float kOperandSteps = 32512;

/// The int16 operand: a block of 32 dims of a query (times keys), or the nonnegative weights of the
/// keys of a tile (times values).
enum class Operand : std::uint8_t { Query, Weights };
template <Operand kind>
inline constexpr std::size_t kOperandValues = kind == Operand::Query ? 32 : kKeyTile;

/// Members:
/// - kQueries, kGroups: queries and groups of 16 columns whose sums stay in registers
/// - kSigned<kind>: true if the bytes are converted back to signed, and sums begin with 0
/// - encode<kind>(x, factors, to): stores n = kOperandValues<kind> values as integers r =
///   round(x*factor), |r| <= kOperandSteps, in 2n bytes, in the layout of multiply(). Returns lanes
///   whose sum is Σr (kSigned: unspecified). If a product is larger or NaN, the integers are
///   unspecified.
/// - multiply<kind, Queries, Groups>(bytes, a, start, put): bytes: [Groups][n/4][16 columns][4]; a:
///   contiguous operands; calls put(query, group, V) with start[query] + Σ r·byte (kSigned: Σ
///   r·(byte - kQ8Bias)) as floats
template <class Isa>
struct IntDots;

/// r in the low half of every lane's bits.
template <class V>
[[gnu::always_inline]] inline V operand_bits(const V& x, const V& factor) {
  return fma(x, factor, V::broadcast(kRoundMagic));
}

template <>
struct IntDots<ScalarIsa> {
  using V = F32x16<ScalarIsa>;
  static constexpr std::size_t kQueries = 1, kGroups = 1;
  template <Operand>
  static constexpr bool kSigned = true;

  template <Operand kind>
  static V encode(const V* x, const V* factors, std::byte* to) {
    constexpr std::size_t n = kOperandValues<kind>;
    for (std::size_t i = 0; i < n; i += kFloatLanes) {
      const V bits = operand_bits(x[i / kFloatLanes], factors[i / kFloatLanes]);
      for (std::size_t j = 0; j < kFloatLanes; ++j) {
        const auto r =
            static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(bits.part[j]) & 0xFFFF);
        std::memcpy(to + (i + j) * sizeof r, &r, sizeof r);
      }
    }
    return V::broadcast(0);
  }

  template <Operand kind, std::size_t Queries, std::size_t Groups, class Put>
  static void multiply(const std::byte* bytes, const std::byte* a, const std::int32_t* /*start*/,
                       Put put) {
    static_assert(Queries == 1 && Groups == 1);
    constexpr std::size_t n = kOperandValues<kind>;
    std::int16_t r[n];
    std::memcpy(r, a, sizeof r);
    V sums;
    for (std::size_t column = 0; column < kFloatLanes; ++column) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < n; ++i)
        sum +=
            r[i] * (static_cast<int>(bytes[(i / 4 * kFloatLanes + column) * 4 + i % 4]) - kQ8Bias);
      sums.part[column] = static_cast<float>(sum);
    }
    put(std::size_t{0}, std::size_t{0}, sums);
  }
};

#if defined(__AVX2__)
/// Operands are int16, of every four values the first and third, then the second and fourth: pairs
/// as `vpmaddwd` meets them in the even and the odd bytes.
template <>
struct IntDots<Avx2> {
  using V = F32x16<Avx2>;
  static constexpr std::size_t kQueries = 4, kGroups = 1;
  template <Operand>
  static constexpr bool kSigned = false;

  template <Operand kind>
  static V encode(const V* x, const V* factors, std::byte* to) {
    constexpr std::size_t n = kOperandValues<kind>;
    __m256i sums = _mm256_setzero_si256();
    for (std::size_t i = 0; i < n; i += kFloatLanes) {
      const V bits = operand_bits(x[i / kFloatLanes], factors[i / kFloatLanes]);
      const auto low = [&](std::size_t part) {
        return _mm256_srai_epi32(_mm256_slli_epi32(_mm256_castps_si256(bits.part[part]), 16), 16);
      };
      const __m256i r = _mm256_permute4x64_epi64(_mm256_packs_epi32(low(0), low(1)), 0xD8);
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(r, _mm256_set1_epi16(1)));
      const __m256i order = _mm256_broadcastsi128_si256(
          _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i), _mm256_shuffle_epi8(r, order));
    }
    V lanes = V::broadcast(0);
    lanes.part[0] = _mm256_cvtepi32_ps(sums);
    return lanes;
  }

  template <Operand kind, std::size_t Queries, std::size_t Groups, class Put>
  static void multiply(const std::byte* bytes, const std::byte* a, const std::int32_t* start,
                       Put put) {
    static_assert(Groups == 1);
    constexpr std::size_t kSteps = kOperandValues<kind> / 4, kOperand = 8 * kSteps;
    __m256i sum[Queries][2];
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) sum[q][0] = sum[q][1] = _mm256_set1_epi32(start[q]);
    const __m256i low = _mm256_set1_epi16(0xFF);
    for (std::size_t step = 0; step < kSteps; ++step, bytes += 64, a += 8) {
      const __m256i row[2] = {load(bytes), load(bytes + 32)};
      const __m256i even[2] = {_mm256_and_si256(row[0], low), _mm256_and_si256(row[1], low)};
      const __m256i odd[2] = {_mm256_srli_epi16(row[0], 8), _mm256_srli_epi16(row[1], 8)};
      CRIA_UNROLL
      for (std::size_t q = 0; q < Queries; ++q) {
        const __m256i first = four(a + q * kOperand), second = four(a + q * kOperand + 4);
        CRIA_UNROLL
        for (std::size_t half = 0; half < 2; ++half) {
          const __m256i s = _mm256_add_epi32(sum[q][half], _mm256_madd_epi16(even[half], first));
          sum[q][half] = _mm256_add_epi32(s, _mm256_madd_epi16(odd[half], second));
        }
      }
    }
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      V v;
      v.part[0] = _mm256_cvtepi32_ps(sum[q][0]);
      v.part[1] = _mm256_cvtepi32_ps(sum[q][1]);
      put(q, std::size_t{0}, v);
    }
  }

 private:
  static __m256i load(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static __m256i four(const std::byte* p) {
    int pair;
    std::memcpy(&pair, p, sizeof pair);
    return _mm256_set1_epi32(pair);
  }
};
#endif

#if defined(__aarch64__)
/// Operands are two planes of signed bytes, the lower first: r = high*256 + low.
template <>
struct IntDots<Neon> {
  using V = F32x16<Neon>;
  static constexpr std::size_t kQueries = 2, kGroups = 1;
  template <Operand>
  static constexpr bool kSigned = true;

  template <Operand kind>
  static V encode(const V* x, const V* factors, std::byte* to) {
    constexpr std::size_t n = kOperandValues<kind>;
    auto* const out = reinterpret_cast<std::int8_t*>(to);
    for (std::size_t i = 0; i < n; i += kFloatLanes) {
      const V bits = operand_bits(x[i / kFloatLanes], factors[i / kFloatLanes]);
      const auto words = [&](std::size_t part) {
        return vmovn_s32(vreinterpretq_s32_f32(bits.part[part]));
      };
      const int16x8_t first = vcombine_s16(words(0), words(1)),
                      second = vcombine_s16(words(2), words(3));
      const int16x8_t half = vdupq_n_s16(128);
      vst1q_s8(out + i, vcombine_s8(vmovn_s16(first), vmovn_s16(second)));
      vst1q_s8(out + n + i, vcombine_s8(vshrn_n_s16(vaddq_s16(first, half), 8),
                                        vshrn_n_s16(vaddq_s16(second, half), 8)));
    }
    return V::broadcast(0);
  }

  template <Operand kind, std::size_t Queries, std::size_t Groups, class Put>
  static void multiply(const std::byte* bytes, const std::byte* a, const std::int32_t* /*start*/,
                       Put put) {
    static_assert(Groups == 1);
    constexpr std::size_t kPlane = kOperandValues<kind>;
    int32x4_t low[Queries][4], high[Queries][4];
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) low[q][i] = high[q][i] = vdupq_n_s32(0);
    }
    for (std::size_t step = 0; step < kPlane / 4; ++step, bytes += 64, a += 4) {
      int8x16_t row[4];
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) {
        const uint8x16_t biased = vld1q_u8(reinterpret_cast<const std::uint8_t*>(bytes + 16 * i));
        row[i] = vreinterpretq_s8_u8(veorq_u8(biased, vdupq_n_u8(kQ8Bias)));
      }
      CRIA_UNROLL
      for (std::size_t q = 0; q < Queries; ++q) {
        const int8x16_t lower = four(a + q * 2 * kPlane),
                        higher = four(a + q * 2 * kPlane + kPlane);
        CRIA_UNROLL
        for (std::size_t i = 0; i < 4; ++i) {
          low[q][i] = vdotq_s32(low[q][i], row[i], lower);
          high[q][i] = vdotq_s32(high[q][i], row[i], higher);
        }
      }
    }
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      V v;
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i)
        v.part[i] = vcvtq_f32_s32(vaddq_s32(low[q][i], vshlq_n_s32(high[q][i], 8)));
      put(q, std::size_t{0}, v);
    }
  }

 private:
  static int8x16_t four(const std::byte* p) {
    return vreinterpretq_s8_s32(vld1q_dup_s32(reinterpret_cast<const std::int32_t*>(p)));
  }
};
#endif

// Integer dot products of attention over a Q8_0 cache by `vpdpbusd`. Contract: int_dots.h.

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
/// A permutation of two registers: the first bytes of their 32 lanes, then the second ones.
struct LowInt16AsBytes {
  std::uint8_t at[64];
  constexpr LowInt16AsBytes() : at{} {
    for (int i = 0; i < 32; ++i) {
      at[i] = static_cast<std::uint8_t>(4 * i);
      at[32 + i] = static_cast<std::uint8_t>(4 * i + 1);
    }
  }
};

/// 32 values are 32 bytes of r modulo 256, then 32 high bytes. vpdpbusd multiplies unsigned by
/// signed bytes: a query's bytes are signed (r = high*256 + low) and the keys' are not; weights are
/// unsigned and the values' bytes signed.
template <>
struct IntDots<Avx512> {
  using V = F32x16<Avx512>;
  static constexpr std::size_t kQueries = 6, kGroups = 2;
  template <Operand kind>
  static constexpr bool kSigned = kind == Operand::Weights;

  template <Operand kind>
  static V encode(const V* x, const V* factors, std::byte* to) {
    alignas(64) static constexpr LowInt16AsBytes kBytes;
    const __m512i bytes = _mm512_load_si512(kBytes.at);
    V lanes = V::broadcast(0);
    unroll<kOperandValues<kind> / 32>([&](int i) CRIA_INLINE {
      const __m512i r0 = _mm512_castps_si512(operand_bits(x[2 * i], factors[2 * i]).part[0]),
                    r1 =
                        _mm512_castps_si512(operand_bits(x[2 * i + 1], factors[2 * i + 1]).part[0]);
      __m512i both = _mm512_permutex2var_epi8(r0, bytes, r1);
      if constexpr (kind == Operand::Query) {
        const __m512i half =
            _mm512_set1_epi32(128);  // for the upper bytes: the lower ones are signed
        const __m512i upper =
            _mm512_permutex2var_epi8(_mm512_add_epi32(r0, half), bytes, _mm512_add_epi32(r1, half));
        both = _mm512_mask_mov_epi32(both, 0xFF00, upper);
        const __m512i one = _mm512_set1_epi32(1);  // the words r, others times zero
        lanes.part[0] = _mm512_cvtepi32_ps(
            _mm512_add_epi32(_mm512_madd_epi16(r0, one), _mm512_madd_epi16(r1, one)));
      }
      _mm512_storeu_si512(to + 64 * i, both);
    });
    return lanes;
  }

  template <Operand kind, std::size_t Queries, std::size_t Groups, class Put>
  [[gnu::always_inline]] static void multiply(const std::byte* bytes, const std::byte* a,
                                              const std::int32_t* start, Put put) {
    constexpr std::size_t kOperand = 2 * kOperandValues<kind>;
    __m512i high[Queries][Groups], low[Queries][Groups];
    each(high, [](std::size_t) CRIA_INLINE { return _mm512_setzero_si512(); });
    const auto begin = [&](std::size_t q) CRIA_INLINE {
      return kSigned<kind> ? _mm512_setzero_si512() : _mm512_set1_epi32(start[q]);
    };
    if constexpr (kind == Operand::Query &&
                  Queries > 4) {  // one after the other: the caller keeps sums, too
      steps<kind, Groups>(bytes, [&](const auto& row, auto at) CRIA_INLINE {
        unroll<Queries>(
            [&](int q) CRIA_INLINE { add_dots<kind>(high[q], row, a + q * kOperand + at + 32); });
      });
      each(low, begin);
      add_shifted(low, high);
      steps<kind, Groups>(bytes, [&](const auto& row, auto at) CRIA_INLINE {
        unroll<Queries>([&](int q)
                            CRIA_INLINE { add_dots<kind>(low[q], row, a + q * kOperand + at); });
      });
    } else {
      each(low, begin);
      steps<kind, Groups>(bytes, [&](const auto& row, auto at) CRIA_INLINE {
        unroll<Queries>([&](int q) CRIA_INLINE {
          const std::byte* const p = a + q * kOperand + at;
          add_dots<kind>(low[q], row, p);
          add_dots<kind>(high[q], row, p + 32);
        });
      });
      add_shifted(low, high);
    }
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g) {
        V v;
        v.part[0] = _mm512_cvtepi32_ps(low[q][g]);
        put(q, g, v);
      }
    }
  }

 private:
  template <std::size_t Queries, std::size_t Groups, class F>
  [[gnu::always_inline]] static void each(__m512i (&sums)[Queries][Groups], F f) {
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g) sums[q][g] = f(q);
    }
  }
  /// low += high*256
  template <std::size_t Queries, std::size_t Groups>
  [[gnu::always_inline]] static void add_shifted(__m512i (&low)[Queries][Groups],
                                                 const __m512i (&high)[Queries][Groups]) {
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g)
        low[q][g] = _mm512_add_epi32(low[q][g], _mm512_slli_epi32(high[q][g], 8));
    }
  }
  /// f(row, at) for every four values: the rows' bytes, and where the operand's lower four lie.
  template <Operand kind, std::size_t Groups, class F>
  [[gnu::always_inline]] static void steps(const std::byte* bytes, F f) {
    constexpr std::size_t kSteps = kOperandValues<kind> / 4;
    unroll<kSteps>([&](auto step) CRIA_INLINE {  // in a loop GCC 12 spills sums
      __m512i row[Groups];
      unroll<Groups>([&](int g) CRIA_INLINE {
        const std::byte* const p = bytes + g * kSteps * 64 + step * 64;
        row[g] = _mm512_loadu_si512(p);
        if constexpr (kSigned<kind>) row[g] = _mm512_xor_si512(row[g], _mm512_set1_epi8(-128));
      });
      f(row, std::integral_constant<std::size_t, step / 8 * 64 + step % 8 * 4>{});
    });
  }
  /// sums += the dot products of the rows' four bytes in each lane with the four at p: one side's
  /// are signed.
  template <Operand kind, std::size_t Groups>
  [[gnu::always_inline]] static void add_dots(__m512i (&sums)[Groups], const __m512i (&row)[Groups],
                                              const std::byte* p) {
    const auto& values = *reinterpret_cast<const std::int32_t(*)>(p);
    if constexpr (kind == Operand::Query && Groups == 1) {
      asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums[0]) : "v"(row[0]), "m"(values));
    } else {
      const __m512i four = _mm512_set1_epi32(values);
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g) {
        if constexpr (kind == Operand::Query) {
          asm("vpdpbusd %2, %1, %0" : "+v"(sums[g]) : "v"(row[g]), "v"(four));
        } else {
          asm("vpdpbusd %2, %1, %0" : "+v"(sums[g]) : "v"(four), "v"(row[g]));
        }
      }
    }
  }
};
#endif  // defined(__AVX512VNNI__) && defined(__AVX512VBMI__)

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
