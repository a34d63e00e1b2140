// MXFP4 times one token on AVX-512: four blocks of a row in a register, a lane each, so that one table serves
// 128 columns, their sums are transposed together and the scales of 32 blocks become floats together.
#pragma once

#include "kernels/gemv/wide.h"
#include "kernels/lanes/fp4.h"

namespace cria {

template <Reading reading>
class Mxfp4Gemv : public BlockSteps<Mxfp4Gemv<reading>, DType::MXFP4, 4, reading> {
  friend class BlockSteps<Mxfp4Gemv, DType::MXFP4, 4, reading>;
  static constexpr std::size_t kStepBytes = 4 * sizeof(BlockMXFP4);
  using Four = __m512i[4];

  CRIA_INLINE static void step(const std::byte* const (&rows)[kRowGroup], std::size_t offset,
                               const std::byte* ahead, const std::int8_t* q, const float* d, __m256& acc) {
    const Values x(q);
    const __m512i ones = _mm512_set1_epi16(1);
    const __m512 da = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                                            _mm512_castps128_ps512(_mm_loadu_ps(d)));
    __m512 sums[2], scales[2];
    unroll<2>([&](auto half) CRIA_INLINE {
      Four raw, pairs;
      unroll<2>([&](auto i) CRIA_INLINE {
        const std::byte* const* const row = rows + 4 * half + 2 * i;
        if constexpr (reading == Reading::InOrder) {
          fetch_far<kRowGroup * kStepBytes, 4>(ahead, 2 * half + i);
        } else {
          fetch_stream<kStepBytes>(row[0] + offset);
          fetch_stream<kStepBytes>(row[1] + offset);
        }
        const __m512i first = x.products(row[0] + offset, raw[2 * i]);
        const __m512i second = x.products(row[1] + offset, raw[2 * i + 1]);
        pairs[i] = _mm512_dpwssd_epi32(_mm512_setzero_si512(), _mm512_packs_epi32(first, second), ones);
      });
      const __m512i rest = _mm512_packs_epi32(pairs[0], pairs[1]);
      sums[half] = _mm512_cvtepi32_ps(_mm512_dpwssd_epi32(_mm512_setzero_si512(), rest, ones));
      scales[half] = _mm512_mul_ps(scales_of(raw), da);
      pin(sums[half]);
    });
    unroll<2>([&](auto i) CRIA_INLINE {
      const __m512 sum = blocks_of<2 * i>(sums), scale = blocks_of<2 * i>(scales);
      acc = _mm256_fmadd_ps(_mm512_castps512_ps256(scale), _mm512_castps512_ps256(sum), acc);
      acc = _mm256_fmadd_ps(_mm512_extractf32x8_ps(scale, 1), _mm512_extractf32x8_ps(sum, 1), acc);
    });
  }

  /// The activations of four blocks: what meets the low nibbles and the high ones.
  struct Values {
    __m512i low, high, start, arranged, table;
    CRIA_INLINE explicit Values(const std::int8_t* q) {
      const __m512i a = _mm512_loadu_si512(q), b = _mm512_loadu_si512(q + 64);
      low = _mm512_shuffle_i32x4(a, b, 0x88);
      high = _mm512_shuffle_i32x4(a, b, 0xDD);
      const __m512i zero = _mm512_set1_epi8(Fp4Nibbles<RowLanes<Avx512>>::kZero);
      start = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), zero, low), zero, high);
      start = _mm512_sub_epi32(_mm512_setzero_si512(), start);
      arranged = _mm512_load_si512(kNibbles.data());
      table = RowLanes<Avx512>::same(&Fp4Nibbles<RowLanes<Avx512>>::kBiased);
    }
    /// Of the four blocks at p: a lane each, four sums of eight products, which fit in an int16. raw: their
    /// first 64 bytes.
    CRIA_INLINE __m512i products(const std::byte* p, __m512i& raw) const {
      raw = _mm512_loadu_si512(p);
      const __m512i end = _mm512_castsi128_si512(_mm_loadu_si32(p + 64));
      const __m512i nibbles = _mm512_permutex2var_epi8(raw, arranged, end);
      // Four tables side by side: what stands above a nibble chooses one of them.
      const __m512i sum = _mm512_dpbusd_epi32(start, _mm512_permutexvar_epi8(nibbles, table), low);
      return _mm512_dpbusd_epi32(sum, _mm512_permutexvar_epi8(_mm512_srli_epi16(nibbles, 4), table), high);
    }
  };

  /// The scales of four rows' blocks, a block in each lane. Byte 17b is byte b of lane b's first four.
  CRIA_INLINE static __m512 scales_of(const Four& raw) {
    const __m512i first =
        _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(raw[0], raw[1]), _mm512_unpacklo_epi32(raw[2], raw[3]));
    const __m512i exponent =
        _mm512_srli_epi32(_mm512_shuffle_epi8(first, _mm512_load_si512(kToTop.data())), 1);
    const __m512i normal = _mm512_sub_epi32(exponent, _mm512_set1_epi32(0x00800000));
    // 2^-128 and 2^-127 for bytes of 0 and 1; not above `normal` for others.
    const __m512i subnormal = _mm512_add_epi32(_mm512_srli_epi32(exponent, 2), _mm512_set1_epi32(0x00200000));
    return _mm512_castsi512_ps(_mm512_max_epi32(normal, subnormal));
  }

  /// Of lanes of rows 0 … 3 and of rows 4 … 7: those of block b, then those of b + 1.
  template <int b>
  CRIA_INLINE static __m512 blocks_of(const __m512 (&v)[2]) {
    constexpr int k = 4 * b;
    const __m512i from = _mm512_setr_epi32(k, k + 1, k + 2, k + 3, k + 16, k + 17, k + 18, k + 19, k + 4,
                                           k + 5, k + 6, k + 7, k + 20, k + 21, k + 22, k + 23);
    return _mm512_permutex2var_ps(v[0], from, v[1]);
  }

  /// Where the nibbles of each lane's block are.
  alignas(64) static constexpr auto kNibbles = [] {
    std::array<std::uint8_t, 64> from{};
    for (std::size_t i = 0; i < 64; ++i)
      from[i] = static_cast<std::uint8_t>(i / 16 * sizeof(BlockMXFP4) + 1 + i % 16);
    return from;
  }();
  /// Byte b of every four in lane b, alone at their top.
  alignas(64) static constexpr auto kToTop = [] {
    std::array<std::uint8_t, 64> from{};
    for (std::size_t i = 0; i < 64; ++i)
      from[i] = i % 4 == 3 ? static_cast<std::uint8_t>(i % 16 - 3 + i / 16) : std::uint8_t{0x80};
    return from;
  }();
};

template <>
struct OneToken<Avx512, DType::MXFP4> {
  template <Reading reading>
  using Reads = Mxfp4Gemv<reading>;
  using Type = Reads<Reading::InOrder>;
};

}  // namespace cria
