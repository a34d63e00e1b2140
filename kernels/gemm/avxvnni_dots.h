// The products of few tokens on AVX-VNNI: bytes are multiplied in fours, and summed in int32, from
// what takes the weights' zero away.
#pragma once

#include "kernels/gemm/few256_vectors.h"
#include "kernels/simd/avxvnni.h"

namespace cria {

template <FewRowsShape shape, int T>
requires(shape.in_fours()) struct TileDots<shape, T> : TileVectors<shape, T> {
  using Vectors = TileVectors<shape, T>;
  using typename Vectors::Half, typename Vectors::Sums, typename Vectors::Place;
  using Dot = Dot256<AvxVnni>;
  static constexpr bool kShorts = shape.sums == TileSums::Shorts;

  /// Shorts: as the low of two factors, of which the high one, which meets the sign of a sum, is 0;
  /// else as int32.
  CRIA_INLINE static void put_scales(__m256i pair, std::int32_t* even, std::int32_t* odd) {
    if constexpr (kShorts) {
      store(even, _mm256_and_si256(pair, _mm256_set1_epi32(0xFFFF)));
      store(odd, _mm256_srli_epi32(pair, 16));
    } else {
      store(even, _mm256_srai_epi32(_mm256_slli_epi32(pair, 16), 16));
      store(odd, _mm256_srai_epi32(pair, 16));
    }
  }

  template <bool first>
  CRIA_INLINE static void add_pairs(__m256i a, __m256i b, __m256i& sum) {
    sum = Dot::words(first ? _mm256_setzero_si256() : sum, a, b);
  }

  /// sums = the products of what a scale or group covers.
  CRIA_INLINE static void dot(const Place& at, Sums& sums) {
    unroll<T>([&](auto t) CRIA_INLINE {
      sums[t][0] = sums[t][1] =
          shape.zero == 0 ? _mm256_setzero_si256() : Vectors::splat(at.start + t);
    });
    constexpr std::size_t kSteps = shape.steps(), kPart = kSteps < 8 ? kSteps : 8;
#pragma GCC unroll 1
    for (std::size_t part = 0; part < kSteps; part += kPart)
      unroll<kPart>([&](auto i) CRIA_INLINE { multiply(at, part + i, sums); });
  }

  /// sums += scale * these products.
  CRIA_INLINE static void add_scaled(const Place& at, const Half& scale, Sums& sums) {
    Sums products;
    dot(at, products);
    Vectors::each([&](auto t, auto h) CRIA_INLINE {
      if constexpr (kShorts)
        add_pairs<false>(products[t][h], scale[h], sums[t][h]);
      else
        sums[t][h] = _mm256_add_epi32(sums[t][h], _mm256_mullo_epi32(products[t][h], scale[h]));
    });
  }

 private:
  CRIA_INLINE static void store(void* p, __m256i v) {
    _mm256_store_si256(static_cast<__m256i*>(p), v);
  }

  CRIA_INLINE static void multiply(const Place& at, std::size_t step, Sums& sums) {
    Half w;
    Vectors::load_halves(at.w[step], w);
    unroll<T>([&](auto t) CRIA_INLINE {
      const __m256i a = at.token(t, step);
      unroll<kHalves>([&](auto h) CRIA_INLINE {
        sums[t][h] = Dot::bytes(sums[t][h], w[h], a);
        pin(sums[t][h]);
      });
    });
  }
};

}  // namespace cria
