// Integer dot products of attention over a Q8_0 cache: sixteen bytes' columns in lanes times operands of sixteen bits,
// exact in int32. IntDots<Isa> works on the layout of kernels/attention/kv_layout.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention/kv_layout.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

/// The largest integer of an operand: 127·256, so that its high byte, rounded, stays within ±127.
inline constexpr float kOperandSteps = 32512;

/// Members:
///   kQueries, kGroups  queries and groups of 16 columns whose sums stay in registers
///   kSigned        the bytes are brought back to their sign, and sums begin with 0
///   encode<n>(x, factor, to)  n = 32 or 64 values as integers r = round(x*factor), |r| <= kOperandSteps, in 2n bytes, in
///                  the form that multiply wants; returns lanes whose sum is Σr (kSigned: nothing of use). Where factor
///                  is NaN the integers are any
///   multiply<Queries, Steps, Groups>(bytes, a, start, ahead, put)  bytes: [Groups][Steps][16 columns][4]; a: Queries
///                  operands of 4·Steps values, one behind the other; put(query, group, V) receives
///                  start[query] + Σ r·byte, as floats. bytes + ahead will be wanted soon
template <class Isa>
struct IntDots;

/// r in the low half of every lane's bits.
template <class V>
[[gnu::always_inline]] inline V operand_bits(const V& x, const V& factor) {
  return x * factor + V::broadcast(kRoundMagic);
}

template <>
struct IntDots<ScalarIsa> {
  using V = F32x16<ScalarIsa>;
  static constexpr std::size_t kQueries = 1, kGroups = 1;
  static constexpr bool kSigned = true;

  template <std::size_t n>
  static V encode(const V* x, float factor, std::byte* to) {
    for (std::size_t i = 0; i < n; i += kFloatLanes) {
      const V bits = operand_bits(x[i / kFloatLanes], V::broadcast(factor));
      for (std::size_t j = 0; j < kFloatLanes; ++j) {
        const auto r = static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(bits.part[j]) & 0xFFFF);
        std::memcpy(to + (i + j) * sizeof r, &r, sizeof r);
      }
    }
    return V::broadcast(0);
  }

  template <std::size_t Queries, std::size_t Steps, std::size_t Groups, class Put>
  static void multiply(const std::byte* bytes, const std::byte* a, const std::int32_t* /*start*/,
                       std::size_t /*ahead*/, Put put) {
    static_assert(Queries == 1 && Groups == 1);
    std::int16_t r[4 * Steps];
    std::memcpy(r, a, sizeof r);
    V sums;
    for (std::size_t column = 0; column < kFloatLanes; ++column) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < 4 * Steps; ++i)
        sum += r[i] * (static_cast<int>(bytes[(i / 4 * kFloatLanes + column) * 4 + i % 4]) - kQ8Bias);
      sums.part[column] = static_cast<float>(sum);
    }
    put(std::size_t{0}, std::size_t{0}, sums);
  }
};

#if defined(__AVX2__)
/// Operands are int16, of every four values the first and third, then the second and fourth: pairs as `vpmaddwd` meets
/// them in the even and the odd bytes.
template <>
struct IntDots<Avx2> {
  using V = F32x16<Avx2>;
  static constexpr std::size_t kQueries = 4, kGroups = 1;
  static constexpr bool kSigned = false;

  template <std::size_t n>
  static V encode(const V* x, float factor, std::byte* to) {
    const V scale = V::broadcast(factor);
    __m256i sums = _mm256_setzero_si256();
    for (std::size_t i = 0; i < n; i += kFloatLanes) {
      const V bits = operand_bits(x[i / kFloatLanes], scale);
      const auto low = [&](std::size_t part) {
        return _mm256_srai_epi32(_mm256_slli_epi32(_mm256_castps_si256(bits.part[part]), 16), 16);
      };
      const __m256i r = _mm256_permute4x64_epi64(_mm256_packs_epi32(low(0), low(1)), 0xD8);
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(r, _mm256_set1_epi16(1)));
      const __m256i order =
          _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i), _mm256_shuffle_epi8(r, order));
    }
    V lanes = V::broadcast(0);
    lanes.part[0] = _mm256_cvtepi32_ps(sums);
    return lanes;
  }

  template <std::size_t Queries, std::size_t Steps, std::size_t Groups, class Put>
  static void multiply(const std::byte* bytes, const std::byte* a, const std::int32_t* start,
                       std::size_t ahead, Put put) {
    static_assert(Groups == 1);
    constexpr std::size_t kOperand = 8 * Steps;
    __m256i sum[Queries][2];
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) sum[q][0] = sum[q][1] = _mm256_set1_epi32(start[q]);
    const __m256i low = _mm256_set1_epi16(0xFF);
    for (std::size_t step = 0; step < Steps; ++step, bytes += 64, a += 8) {
      __builtin_prefetch(bytes + ahead, 0, 2);
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
  static __m256i load(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static __m256i four(const std::byte* p) {
    int pair;
    std::memcpy(&pair, p, sizeof pair);
    return _mm256_set1_epi32(pair);
  }
};
#endif

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
/// Permutations of two registers: the low words of 32 lanes, every second byte of them.
struct LowWordsOfLanes {
  std::uint16_t at[32];
  constexpr LowWordsOfLanes() : at{} {
    for (std::uint16_t i = 0; i < 32; ++i) at[i] = static_cast<std::uint16_t>(2 * i);
  }
};
struct EverySecondByte {
  std::uint8_t at[64];
  constexpr explicit EverySecondByte(int first) : at{} {
    for (int i = 0; i < 64; ++i) at[i] = static_cast<std::uint8_t>(2 * i + first);
  }
};

/// Operands are two planes of signed bytes, the lower first: r = high*256 + low.
template <>
struct IntDots<Avx512> {
  using V = F32x16<Avx512>;
  static constexpr std::size_t kQueries = 6, kGroups = 2;
  static constexpr bool kSigned = false;

  template <std::size_t n>
  static V encode(const V* x, float factor, std::byte* to) {
    alignas(64) static constexpr LowWordsOfLanes kLowWords;
    alignas(64) static constexpr EverySecondByte kLowBytes(0), kHighBytes(1);
    const __m512i words = _mm512_load_si512(kLowWords.at), low = _mm512_load_si512(kLowBytes.at),
                  high = _mm512_load_si512(kHighBytes.at);
    const V scale = V::broadcast(factor);
    const auto bits = [&](std::size_t i) { return _mm512_castps_si512(operand_bits(x[i], scale).part[0]); };
    const auto pack = [&](std::size_t i) { return _mm512_permutex2var_epi16(bits(i), words, bits(i + 1)); };
    const __m512i half = _mm512_set1_epi16(128), one = _mm512_set1_epi16(1), r = pack(0);
    __m512i sums = _mm512_dpwssd_epi32(_mm512_setzero_si512(), r, one);
    if constexpr (n == 64) {
      const __m512i s = pack(2);
      sums = _mm512_dpwssd_epi32(sums, s, one);
      _mm512_storeu_si512(to, _mm512_permutex2var_epi8(r, low, s));
      _mm512_storeu_si512(
          to + n, _mm512_permutex2var_epi8(_mm512_add_epi16(r, half), high, _mm512_add_epi16(s, half)));
    } else {
      static_assert(n == 32);
      const __m512i lower = _mm512_permutexvar_epi8(low, r);
      const __m512i higher = _mm512_permutexvar_epi8(high, _mm512_add_epi16(r, half));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(lower));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + n), _mm512_castsi512_si256(higher));
    }
    V lanes;
    lanes.part[0] = _mm512_cvtepi32_ps(sums);
    return lanes;
  }

  template <std::size_t Queries, std::size_t Steps, std::size_t Groups, class Put>
  static void multiply(const std::byte* bytes, const std::byte* a, const std::int32_t* start,
                       std::size_t ahead, Put put) {
    constexpr std::size_t kPlane = 4 * Steps, kGroup = 64 * Steps;
    __m512i low[Queries][Groups], high[Queries][Groups];
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g) {
        low[q][g] = _mm512_set1_epi32(start[q]);
        high[q][g] = _mm512_setzero_si512();
      }
    }
    unroll<Steps>([&](auto step) CRIA_INLINE {  // in a loop GCC 12 spills sums
      __m512i row[Groups];
      unroll<Groups>([&](auto g) CRIA_INLINE {
        const std::byte* const p = bytes + g * kGroup + step * 64;
        __builtin_prefetch(p + ahead, 0, 2);
        row[g] = _mm512_loadu_si512(p);
      });
      unroll<Queries>([&](auto q) CRIA_INLINE {
        add_dots(low[q], row, a + q * 2 * kPlane + step * 4);
        add_dots(high[q], row, a + q * 2 * kPlane + kPlane + step * 4);
      });
    });
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g) {
        V v;
        v.part[0] = _mm512_cvtepi32_ps(_mm512_add_epi32(low[q][g], _mm512_slli_epi32(high[q][g], 8)));
        put(q, g, v);
      }
    }
  }

 private:
  /// sums += the dot products of the rows' four unsigned bytes in each lane with the four signed bytes at p.
  template <std::size_t Groups>
  [[gnu::always_inline]] static void add_dots(__m512i (&sums)[Groups], const __m512i (&row)[Groups],
                                              const std::byte* p) {
    const auto& values = *reinterpret_cast<const std::int32_t(*)>(p);
    if constexpr (Groups == 1) {
      asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums[0]) : "v"(row[0]), "m"(values));
    } else {
      const __m512i four = _mm512_set1_epi32(values);
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g)
        asm("vpdpbusd %2, %1, %0" : "+v"(sums[g]) : "v"(row[g]), "v"(four));
    }
  }
};
#endif

#if defined(__aarch64__)
/// Operands are two planes of signed bytes, the lower first: r = high*256 + low.
template <>
struct IntDots<Neon> {
  using V = F32x16<Neon>;
  static constexpr std::size_t kQueries = 2, kGroups = 1;
  static constexpr bool kSigned = true;

  template <std::size_t n>
  static V encode(const V* x, float factor, std::byte* to) {
    auto* const out = reinterpret_cast<std::int8_t*>(to);
    for (std::size_t i = 0; i < n; i += kFloatLanes) {
      const V bits = operand_bits(x[i / kFloatLanes], V::broadcast(factor));
      const auto words = [&](std::size_t part) { return vmovn_s32(vreinterpretq_s32_f32(bits.part[part])); };
      const int16x8_t first = vcombine_s16(words(0), words(1)), second = vcombine_s16(words(2), words(3));
      const int16x8_t half = vdupq_n_s16(128);
      vst1q_s8(out + i, vcombine_s8(vmovn_s16(first), vmovn_s16(second)));
      vst1q_s8(out + n + i,
               vcombine_s8(vshrn_n_s16(vaddq_s16(first, half), 8), vshrn_n_s16(vaddq_s16(second, half), 8)));
    }
    return V::broadcast(0);
  }

  template <std::size_t Queries, std::size_t Steps, std::size_t Groups, class Put>
  static void multiply(const std::byte* bytes, const std::byte* a, const std::int32_t* /*start*/,
                       std::size_t ahead, Put put) {
    static_assert(Groups == 1);
    constexpr std::size_t kPlane = 4 * Steps;
    int32x4_t low[Queries][4], high[Queries][4];
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) low[q][i] = high[q][i] = vdupq_n_s32(0);
    }
    for (std::size_t step = 0; step < Steps; ++step, bytes += 64, a += 4) {
      __builtin_prefetch(bytes + ahead, 0, 2);
      int8x16_t row[4];
      CRIA_UNROLL
      for (std::size_t i = 0; i < 4; ++i) {
        const uint8x16_t biased = vld1q_u8(reinterpret_cast<const std::uint8_t*>(bytes + 16 * i));
        row[i] = vreinterpretq_s8_u8(veorq_u8(biased, vdupq_n_u8(kQ8Bias)));
      }
      CRIA_UNROLL
      for (std::size_t q = 0; q < Queries; ++q) {
        const int8x16_t lower = four(a + q * 2 * kPlane), higher = four(a + q * 2 * kPlane + kPlane);
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

}  // namespace cria
