// Two and three bits a register of 64 columns at a time: see wide.h.
#pragma once

#include "kernels/gemv/wide.h"
#include "kernels/lanes/k.h"

namespace cria {

/// 64 bytes, once: GCC would load them again for every use, and they lie across two cache lines.
CRIA_INLINE inline __m512i load_once(const std::byte* p) {
  __m512i v = _mm512_loadu_si512(p);
  pin(v);
  return v;
}

template <>
struct WideType<DType::Q2_K> {
  using Block = BlockQ2_K;
  static constexpr bool kHalves = true;
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
    CRIA_INLINE void each(int, const std::byte* p, const WideValues& x, F f) const {
      const __m512i q = load_once(p + offsetof(Block, q)), three = _mm512_set1_epi8(3);
      const __m512i scales =
          _mm512_and_si512(RowLanes<Avx512>::same(p + offsetof(Block, scales)), _mm512_set1_epi8(15));
      unroll<2>([&](auto i) CRIA_INLINE {
        const __m512i spread = _mm512_load_si512(kSpreadScales[i].data());
        f(x.dot(2 * i, RowLanes<Avx512>::take<4 * i>(q, three)),
          x.dot(2 * i + 1, RowLanes<Avx512>::take<4 * i + 2>(q, three)), _mm512_shuffle_epi8(scales, spread));
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
    /// The scales' bytes, with zero above.
    alignas(64) static constexpr auto kSpreadScales = [] {
      std::array<std::array<std::uint8_t, 64>, 2> from{};
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t k = 0; k < 64; ++k)
          from[i][k] =
              k % 2 == 0 ? static_cast<std::uint8_t>(wide_scale<true>(i, k / 2)) : std::uint8_t{0x80};
      return from;
    }();

    __m256i ends_;
  };
};

template <>
struct WideType<DType::Q3_K> {
  using Block = BlockQ3_K;
  static constexpr bool kHalves = true;
  static constexpr int kZero = LaneType<RowLanes<Avx512>, DType::Q3_K>::kZero;

  class Rows : public WideScales<DType::Q3_K, kHalves> {
   public:
    using WideScales::WideScales;
    template <class F>
    CRIA_INLINE void each(int r, const std::byte* p, const WideValues& x, F f) const {
      const __m512i lo = load_once(p + offsetof(Block, lo)), three = _mm512_set1_epi8(3);
      const auto* const third = reinterpret_cast<const __m256i*>(p + offsetof(Block, hi));
      // Bits 0 … 3 of every byte are now those of the registers 0 … 3;
      // what else is shifted in is not looked at.
      const __m512i hi = _mm512_srlv_epi32(_mm512_broadcast_i64x4(_mm256_loadu_si256(third)),
                                           _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4));
      const auto dot = [&](auto j) CRIA_INLINE {
        return x.dot(j, _mm512_or_si512(RowLanes<Avx512>::take<2 * j>(lo, three),
                                        RowLanes<Avx512>::take<j - 2>(hi, _mm512_set1_epi8(4))));
      };
      unroll<2>([&](auto i) CRIA_INLINE {
        f(dot(std::integral_constant<int, 2 * i>{}), dot(std::integral_constant<int, 2 * i + 1>{}),
          this->scales(r, i));
      });
    }
  };
};

}  // namespace cria
