// Integer dot products of attention over a Q8_0 cache by `vpdpbusd`. Contract: int_dots.h.
#pragma once

#include "kernels/attention/int_dots.h"
#include "kernels/simd/row_lanes.h"

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
namespace cria {

/// A permutation of two registers: the first bytes of their 32 lanes, then the second ones.
struct LowWordsAsBytes {
  std::uint8_t at[64];
  constexpr LowWordsAsBytes() : at{} {
    for (int i = 0; i < 32; ++i) {
      at[i] = static_cast<std::uint8_t>(4 * i);
      at[32 + i] = static_cast<std::uint8_t>(4 * i + 1);
    }
  }
};

/// 32 values are 32 bytes of r modulo 256, then 32 of what is above. A query's bytes are signed, r
/// = high*256 + low, since those of keys are not; the weights' are not, so that values' are.
template <>
struct IntDots<Avx512> {
  using V = F32x16<Avx512>;
  static constexpr std::size_t kQueries = 6, kGroups = 2;
  template <Operand kind>
  static constexpr bool kSigned = kind == Operand::Weights;

  template <Operand kind>
  static V encode(const V* x, const V* factors, std::byte* to) {
    alignas(64) static constexpr LowWordsAsBytes kBytes;
    const __m512i bytes = _mm512_load_si512(kBytes.at);
    V lanes = V::broadcast(0);
    unroll<kOperandValues<kind> / 32>([&](auto i) CRIA_INLINE {
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
            [&](auto q) CRIA_INLINE { add_dots<kind>(high[q], row, a + q * kOperand + at + 32); });
      });
      each(low, begin);
      add_shifted(low, high);
      steps<kind, Groups>(bytes, [&](const auto& row, auto at) CRIA_INLINE {
        unroll<Queries>([&](auto q)
                            CRIA_INLINE { add_dots<kind>(low[q], row, a + q * kOperand + at); });
      });
    } else {
      each(low, begin);
      steps<kind, Groups>(bytes, [&](const auto& row, auto at) CRIA_INLINE {
        unroll<Queries>([&](auto q) CRIA_INLINE {
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
      unroll<Groups>([&](auto g) CRIA_INLINE {
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

}  // namespace cria
#endif
