// The products of few tokens on AVX2: bytes are multiplied in pairs and summed in int16. Where
// weights have a zero, the sums begin with what takes it away: they may wrap around on their way,
// for what they end as is small.
#pragma once

#include "kernels/gemm/few256_vectors.h"

namespace cria {

template <FewRowsShape shape, int T>
requires(!shape.in_fours()) struct TileDots<shape, T> : TileVectors<shape, T> {
  using Vectors = TileVectors<shape, T>;
  using typename Vectors::Half, typename Vectors::Sums, typename Vectors::Place;

  /// Twice each, as factors of pairs of int16.
  CRIA_INLINE static void put_scales(__m256i pair, std::int32_t* even, std::int32_t* odd) {
    store(even, _mm256_blend_epi16(pair, _mm256_slli_epi32(pair, 16), 0xAA));
    store(odd, _mm256_blend_epi16(_mm256_srli_epi32(pair, 16), pair, 0xAA));
  }

  template <bool first>
  CRIA_INLINE static void add_pairs(__m256i a, __m256i b, __m256i& sum) {
    const __m256i product = _mm256_madd_epi16(a, b);
    sum = first ? product : _mm256_add_epi32(sum, product);
  }

  CRIA_INLINE static void dot(const Place& at, Sums& sums) {
    const __m256i one = _mm256_set1_epi16(1);
    scaled<true>(at, {one, one}, sums);
  }
  CRIA_INLINE static void add_scaled(const Place& at, const Half& scale, Sums& sums) {
    scaled<false>(at, scale, sums);
  }

 private:
  /// sums = or += scale * the products of what a scale or group covers.
  template <bool first>
  CRIA_INLINE static void scaled(const Place& at, const Half& scale, Sums& sums) {
    if constexpr (shape.sums == TileSums::Full) {
      if constexpr (first) Vectors::clear(sums);
      dot_full(at, scale, sums);
      return;
    }
    constexpr int kRun = shape.in_one_run(), kPart = kRun < 8 ? kRun : 8;
    unroll<shape.steps() / kRun>([&](auto run) CRIA_INLINE {
      Sums words;
      if constexpr (shape.centred)
        unroll<T>([&](auto t) CRIA_INLINE {
          words[t][0] = words[t][1] = Vectors::splat(at.start + run * kTileTokens + t);
        });
#pragma GCC unroll 1
      for (std::size_t part = 0; part < kRun; part += kPart) {
        unroll<kPart>([&](auto i) CRIA_INLINE {
          constexpr bool kFirst = i == 0 && !shape.centred && kRun == kPart;
          multiply<kFirst>(at, run * kRun + part + i, words);
        });
      }
      Vectors::each([&](auto t, auto h) CRIA_INLINE {
        add_pairs<first && run == 0>(words[t][h], scale[h], sums[t][h]);
      });
    });
  }

  CRIA_INLINE static void store(void* p, __m256i v) {
    _mm256_store_si256(static_cast<__m256i*>(p), v);
  }

  CRIA_INLINE static void dot_full(const Place& at, const Half& scale, Sums& sums) {
    constexpr std::size_t kSteps = shape.steps();
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kSteps; ++i) {
      Half w;
      Vectors::load_halves(at.w[i], w);
      const Half magnitude = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
      unroll<T>([&](auto t) CRIA_INLINE {
        const __m256i a = at.token(t, i);
        unroll<kHalves>([&](auto h) CRIA_INLINE {
          add_pairs<false>(_mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(a, w[h])), scale[h],
                           sums[t][h]);
          pin(sums[t][h]);
        });
      });
    }
  }

  /// words = or += the products of four columns.
  template <bool first>
  CRIA_INLINE static void multiply(const Place& at, std::size_t step, Sums& words) {
    Half w;
    Vectors::load_halves(at.w[step], w);
    unroll<T>([&](auto t) CRIA_INLINE {
      const __m256i a = at.token(t, step);
      Half p = {_mm256_maddubs_epi16(w[0], a), _mm256_maddubs_epi16(w[1], a)};
      pin_both(p);
      unroll<kHalves>([&](auto h) CRIA_INLINE {
        words[t][h] = first ? p[h] : _mm256_add_epi16(words[t][h], p[h]);
      });
      if constexpr (!first) pin_both(words[t]);
    });
  }
  /// GCC would have multiplications and adds take turns, which Zen 3 does slower.
  CRIA_INLINE static void pin_both(Half& v) { asm("" : "+v"(v[0]), "+v"(v[1])); }
};

}  // namespace cria
