// Codebooks of eight values a register of 64 columns at a time: eight entries loaded one by one. See
// gemv_wide.h.
#pragma once

#include <cstring>

#include "kernels/gemv_iq.h"
#include "kernels/gemv_wide.h"

namespace cria {

template <class T>
CRIA_INLINE inline T load_bits(const std::byte* p) {
  T bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

/// The entries of eight indices, of their low bytes, eight at `low`, and of the bits above them: of four
/// indices in a Tops at `high`, of the next four in another; they belong at `places` of four numbers of
/// sixteen bits.
template <class Tops>
CRIA_INLINE inline __m512i eight_entries(const std::uint64_t* book, const std::byte* low,
                                         const std::byte* high, std::uint64_t places) {
  const auto pair = [&](std::uint64_t first, std::uint64_t second) CRIA_INLINE {
    const __m128i one = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(book + first));
    return _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(one), reinterpret_cast<const __m64*>(book + second)));
  };
  const auto four = [&](int i) CRIA_INLINE {
    const std::uint64_t indices = _pdep_u64(load_bits<std::uint32_t>(low + 4 * i), 0x00FF'00FF'00FF'00FF) |
                                  _pdep_u64(load_bits<Tops>(high + sizeof(Tops) * i), places);
    const __m128i upper = pair(__bextr_u64(indices, 16U << 8 | 32), indices >> 48);
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(pair(indices & 0xFFFF, __bextr_u64(indices, 16U << 8 | 16))), upper, 1);
  };
  return _mm512_inserti64x4(_mm512_castsi256_si512(four(0)), four(1), 1);
}

/// What codebook types share. Their Row(p), a row's block: dot(j, x), the products of register j.
template <DType type, class Block_, int zero>
struct WideCodebook {
  using Block = Block_;
  static constexpr bool kHalves = false;
  static constexpr int kZero = zero;

  class Rows : public WideScales<type, kHalves> {
   public:
    using WideScales<type, kHalves>::WideScales;
    template <class F>
    CRIA_INLINE void each(int r, const std::byte* p, const WideValues& x, F f) const {
      const typename WideType<type>::Row row(p);
      unroll<2>([&](auto i) CRIA_INLINE { f(row.dot(2 * i, x), row.dot(2 * i + 1, x), this->scales(r, i)); });
    }
  };
};

template <>
struct WideType<DType::IQ2_S> : WideCodebook<DType::IQ2_S, BlockIQ2_S, 0> {
  class Row {
   public:
    CRIA_INLINE explicit Row(const std::byte* p) : p_(p) {}
    [[nodiscard]] CRIA_INLINE __m512i dot(int j, const WideValues& x) const {
      const auto negative = load_bits<std::uint64_t>(p_ + offsetof(Block, signs) + 8 * j);
      const __m512i entries =
          eight_entries<std::uint8_t>(kIq2sGrid.data(), p_ + offsetof(Block, index) + 8 * j,
                                      p_ + offsetof(Block, index_hi) + 2 * j, 0x0300'0300'0300'0300);
      return x.dot(j, entries, _cvtu64_mask64(negative));
    }

   private:
    const std::byte* p_;
  };
};

/// The plus or minus one of 32 columns is a product of its own, of their sums.
template <>
struct WideType<DType::IQ1_S> : WideCodebook<DType::IQ1_S, BlockIQ1_S, 8> {
  class Rows : public WideCodebook::Rows {
   public:
    Rows(const std::byte* const* rows, std::size_t offset)
        : WideCodebook::Rows(rows, offset),
          signed_{with_signs(rows, offset, 0), with_signs(rows, offset, 1)} {}
    /// Σ ± scale * the sums of the eight rows.
    [[nodiscard]] __m256i more(const std::int16_t* sum) const {
      using V = RowLanes<Avx512>;
      const __m512i sums = V::pair_sums(sum);
      const __m512i products[2] = {V::madd16(V::zero(), signed_[0], sums),
                                   V::madd16(V::zero(), signed_[1], sums)};
      return V::sum_rows(products);
    }

   private:
    __m512i with_signs(const std::byte* const* rows, std::size_t offset, int k) const {
      const __m512i hi = RowLanes<Avx512>::load(rows + k, offset + offsetof(Block, hi));
      return _mm512_mask_sub_epi16(this->lanes(k), _mm512_movepi16_mask(hi), _mm512_setzero_si512(),
                                   this->lanes(k));
    }
    __m512i signed_[2];
  };
  class Row {
   public:
    CRIA_INLINE explicit Row(const std::byte* p) : p_(p) {}
    [[nodiscard]] CRIA_INLINE __m512i dot(int j, const WideValues& x) const {
      const __m512i entries =
          eight_entries<std::uint16_t>(kIq1Grid.data(), p_ + offsetof(Block, index) + 8 * j,
                                       p_ + offsetof(Block, hi) + 4 * j, 0x0700'0700'0700'0700);
      return x.dot(j, _mm512_add_epi8(entries, _mm512_set1_epi8(kZero)));
    }

   private:
    const std::byte* p_;
  };
};

}  // namespace cria
