// K types and IQ4_XS a register of 64 columns at a time: see avx512_row.h.
#pragma once

#include "kernels/gemv/avx512_row.h"
#include "kernels/lanes/iq4.h"
#include "kernels/lanes/k.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// 64 bytes, once: GCC would load them again for every use, and they lie across two cache lines.
CRIA_INLINE inline __m512i load_once(const std::byte* p) {
  __m512i v = _mm512_loadu_si512(p);
  pin(v);
  return v;
}

template <>
struct RowType<DType::Q2_K> {
  using Block = BlockQ2_K;
  static constexpr RowOrder kOrder = RowOrder::Halves;
  static constexpr int kZero = 0;

  class Rows {
   public:
    Rows(const std::byte* const* rows, std::size_t offset)
        : ends_(dwords(rows, offset + offsetof(Block, d))) {}
    [[nodiscard]] __m256 d() const { return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(ends_)); }
    [[nodiscard]] __m256 dmin() const {
      return _mm256_cvtph_ps(_mm256_cvtepi32_epi16(_mm256_srli_epi32(ends_, 16)));
    }
    template <int T, class F>
    CRIA_INLINE void each(int, const std::byte* p, const RowValues<T>& x, F f) const {
      const __m512i q = load_once(p + offsetof(Block, q)), three = _mm512_set1_epi8(3);
      const __m512i scales = _mm512_and_si512(RowLanes<Avx512>::same(p + offsetof(Block, scales)),
                                              _mm512_set1_epi8(15));
      unroll<2>([&](auto i) CRIA_INLINE {
        const __m512i spread = _mm512_load_si512(kSpreadScales[i].data());
        f(x.dot(2 * i, RowLanes<Avx512>::take<4 * i>(q, three)),
          x.dot(2 * i + 1, RowLanes<Avx512>::take<4 * i + 2>(q, three)),
          _mm512_shuffle_epi8(scales, spread));
      });
    }
    [[nodiscard]] CRIA_INLINE __m512i mins(const std::byte* p, const std::byte* q) const {
      const auto load = [](const std::byte* block) CRIA_INLINE {
        return RowLanes<Avx512>::load128(block + offsetof(Block, scales));
      };
      const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(load(p)), load(q), 1);
      return _mm512_cvtepu8_epi16(
          _mm256_and_si256(_mm256_srli_epi16(both, 4), _mm256_set1_epi8(15)));
    }

   private:
    /// Four bytes of each row; a masked load needs no shuffle.
    CRIA_INLINE static __m256i dwords(const std::byte* const* rows, std::size_t offset) {
      __m256i v = _mm256_broadcastd_epi32(_mm_loadu_si32(rows[0] + offset));
      unroll<kRowGroup - 1>([&](int r) CRIA_INLINE {
        v = _mm256_mask_broadcastd_epi32(v, __mmask8(2 << r), _mm_loadu_si32(rows[r + 1] + offset));
      });
      return v;
    }
    /// The scales' bytes, with zero above.
    alignas(64) static constexpr auto kSpreadScales = [] {
      std::array<std::array<std::uint8_t, 64>, 2> from{};
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t k = 0; k < 64; ++k)
          from[i][k] = k % 2 == 0 ? static_cast<std::uint8_t>(row_scale<RowOrder::Halves>(i, k / 2))
                                  : std::uint8_t{0x80};
      return from;
    }();

    __m256i ends_;
  };
};

/// The third bits of 256 weights, 32 to a bit of each byte at p: bits 0 … 3 of every byte belong to
/// registers 0 … 3, the others are of no use.
CRIA_INLINE inline __m512i third_bits(const std::byte* p) {
  return _mm512_srlv_epi32(load_twice(p),
                           _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4));
}

template <>
struct RowType<DType::Q3_K> {
  using Block = BlockQ3_K;
  static constexpr RowOrder kOrder = RowOrder::Halves;
  static constexpr int kZero = LaneType<RowLanes<Avx512>, DType::Q3_K>::kZero;

  class Rows : public RowScales<DType::Q3_K, kOrder> {
   public:
    using RowScales::RowScales;
    template <int T, class F>
    CRIA_INLINE void each(int r, const std::byte* p, const RowValues<T>& x, F f) const {
      const __m512i lo = load_once(p + offsetof(Block, lo)), three = _mm512_set1_epi8(3);
      const __m512i hi = third_bits(p + offsetof(Block, hi));
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

/// `bits` bits of each byte of hi, from `first` on in lanes 0 and 1 and from first + apart on in
/// the others, above nibbles. Bits above them are those of `nibbles`.
template <int first, int bits, int apart = 2>
CRIA_INLINE inline __m512i with_top(__m512i nibbles, __m512i hi) {
  alignas(64) static constexpr auto kTop =
      bytes_by([](std::size_t k) { return (8 * (k % 8) + first + k / 32 * apart + 64 - 4) % 64; });
  constexpr int kSelect = 0xCA, kMask = ((1 << bits) - 1) << 4;  // a ? b : c
  const __m512i top = _mm512_multishift_epi64_epi8(load_bytes(kTop), hi);
  return _mm512_ternarylogic_epi32(_mm512_set1_epi8(kMask), top, nibbles, kSelect);
}

/// Q4_K, and Q5_K with a fifth bit: eight scales and mins.
template <DType type, class Block_>
struct RowNibblesK {
  using Block = Block_;
  static constexpr RowOrder kOrder = RowOrder::Nibbles;
  static constexpr int kZero = 0;

  class Rows : public RowScales<type, kOrder> {
   public:
    using Lanes = typename RowScales<type, kOrder>::Lanes;
    CRIA_INLINE Rows(const std::byte* const* rows, std::size_t offset)
        : RowScales<type, kOrder>(rows, offset), dmin_(Lanes::dmin(rows, offset)) {
      Lanes::mins(rows, offset, mins_[0]);
      Lanes::mins(rows + 1, offset, mins_[1]);
    }
    [[nodiscard]] __m256 dmin() const { return dmin_; }
    [[nodiscard]] CRIA_INLINE __m256i min_sums(const std::int16_t* sum) const {
      const __m512i none = _mm512_setzero_si512(), pairs = RowLanes<Avx512>::pair_sums(sum);
      const __m512i sums = add_neighbours(_mm512_dpwssd_epi32(none, mins_[0][0], pairs),
                                          _mm512_dpwssd_epi32(none, mins_[1][0], pairs));
      // Lane l has rows 2l, 2l + 1, 2l, 2l + 1.
      const __m512i both = _mm512_add_epi32(sums, _mm512_shuffle_epi32(sums, _MM_PERM_BADC));
      return _mm512_castsi512_si256(
          _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 0, 0, 0, 0), both));
    }
    template <int T, class F>
    CRIA_INLINE void each(int r, const std::byte* p, const RowValues<T>& x, F f) const {
      __m512i hi = _mm512_setzero_si512();
      if constexpr (type == DType::Q5_K) hi = load_twice(p + offsetof(BlockQ5_K, hi));
      const auto dot = [&](auto j, __m512i nibbles) CRIA_INLINE {
        if constexpr (type == DType::Q5_K) nibbles = with_top<4 * (j / 2) + j % 2, 1>(nibbles, hi);
        return x.dot(j, nibbles);
      };
      unroll<2>([&](auto i) CRIA_INLINE {
        const __m512i lo = load_once(p + offsetof(Block, lo) + 64 * i),
                      nibble = _mm512_set1_epi8(15);
        f(dot(std::integral_constant<int, 2 * i>{}, RowLanes<Avx512>::take<0>(lo, nibble)),
          dot(std::integral_constant<int, 2 * i + 1>{}, RowLanes<Avx512>::take<4>(lo, nibble)),
          this->scales(r, i));
      });
    }

   private:
    __m256 dmin_;
    __m512i mins_[2][1];  // as scales
  };
};
template <>
struct RowType<DType::Q4_K> : RowNibblesK<DType::Q4_K, BlockQ4_K> {};
template <>
struct RowType<DType::Q5_K> : RowNibblesK<DType::Q5_K, BlockQ5_K> {};

template <>
struct RowType<DType::Q6_K> {
  using Block = BlockQ6_K;
  static constexpr RowOrder kOrder = RowOrder::Columns;
  static constexpr int kZero = LaneType<RowLanes<Avx512>, DType::Q6_K>::kZero;

  class Rows {
   public:
    Rows(const std::byte* const* rows, std::size_t offset)
        : d_(LaneType<RowLanes<Avx512>, DType::Q6_K>::d(rows, offset)) {}
    [[nodiscard]] __m256 d() const { return d_; }
    template <int T, class F>
    CRIA_INLINE void each(int, const std::byte* p, const RowValues<T>& x, F f) const {
      const __m512i scales = _mm512_castsi256_si512(
          _mm256_cvtepi8_epi16(RowLanes<Avx512>::load128(p + offsetof(Block, scales))));
      unroll<2>([&](int i) CRIA_INLINE {
        const __m512i lo = load_once(p + offsetof(Block, lo) + 64 * i),
                      nibble = _mm512_set1_epi8(15);
        const __m512i hi = load_twice(p + offsetof(Block, hi) + 32 * i);
        f(x.dot(2 * i, with_top<0, 2>(RowLanes<Avx512>::take<0>(lo, nibble), hi)),
          x.dot(2 * i + 1, with_top<4, 2>(RowLanes<Avx512>::take<4>(lo, nibble), hi)),
          _mm512_permutexvar_epi16(_mm512_load_si512(kSpread[i].data()), scales));
      });
    }

   private:
    alignas(64) static constexpr auto kSpread = [] {
      std::array<std::array<std::uint16_t, 32>, 2> from{};
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t k = 0; k < 32; ++k)
          from[i][k] = static_cast<std::uint16_t>(row_scale<kOrder>(i, k));
      return from;
    }();

    __m256 d_;
  };
};

template <>
struct RowType<DType::IQ4_XS> {
  using Block = BlockIQ4_XS;
  static constexpr RowOrder kOrder = RowOrder::Lanes;
  static constexpr int kZero = LaneType<RowLanes<Avx512>, DType::IQ4_XS>::kZero;

  class Rows : public RowScales<DType::IQ4_XS, kOrder> {
   public:
    using RowScales::RowScales;
    template <int T>
    [[nodiscard]] CRIA_INLINE RowSums<T> total(int r, const std::byte* p,
                                               const RowValues<T>& x) const {
      RowSums<T> halves[2];
      unroll<2>([&](int i) CRIA_INLINE {
        const __m512i lo = load_once(p + offsetof(Block, lo) + 64 * i),
                      table = RowLanes<Avx512>::same(&Iq4Nibbles<RowLanes<Avx512>>::kBiased);
        // Four tables side by side: what stands above a nibble chooses one of them.
        const RowSums<T> low = x.dot(2 * i, _mm512_permutexvar_epi8(lo, table)),
                         high = x.dot(2 * i + 1,
                                      _mm512_permutexvar_epi8(_mm512_srli_epi16(lo, 4), table));
        const __m512i scales = scales32(r, i);
        halves[i] = sums_by<T>([&](auto t) CRIA_INLINE {
          return _mm512_mullo_epi32(_mm512_add_epi32(low[t], high[t]), scales);
        });
      });
      return sums_by<T>([&](auto t)
                            CRIA_INLINE { return _mm512_add_epi32(halves[0][t], halves[1][t]); });
    }
  };
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
