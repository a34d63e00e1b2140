// IQ2_XS, IQ2_S, IQ1_S and IQ1_M on Intel's processors, a register of 64 columns at a time: eight
// entries are gathered, which takes 4.7 cycles there. See wide.h.
#pragma once

#include "kernels/gemv/avx512_row.h"
#include "kernels/lanes/iq.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The bits of an index above its low eight: `bits` of them, `step` from one index to the next.
/// Four indices share an integer of type Word_, and the next four another.
template <class Word_, int step, int bits>
struct UpperBits {
  using Word = Word_;
  static constexpr std::uint64_t kMask = (1U << bits) - 1;
  /// Right shifts of eight indices in both integers, which are shifted left by eight.
  alignas(64) static constexpr auto kShifts = [] {
    std::array<std::uint64_t, 8> shifts{};
    for (std::size_t i = 0; i < 8; ++i) shifts[i] = i / 4 * 8 * sizeof(Word) + i % 4 * step;
    return shifts;
  }();
};

/// Eight entries of a codebook by one gather.
struct GatheredEntries {
  /// Entries of indices that are the low nine bits of eight int16.
  CRIA_INLINE static __m512i of_nine(const std::uint64_t* book, const std::byte* words) {
    const __m512i index =
        _mm512_cvtepu16_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
    return _mm512_i64gather_epi64(_mm512_and_si512(index, _mm512_set1_epi64(511)), book, 8);
  }
  template <class Upper>
  CRIA_INLINE static __m512i of(const std::uint64_t* book, const std::byte* low,
                                const std::byte* high) {
    using Both =
        std::conditional_t<sizeof(typename Upper::Word) == 1, std::uint16_t, std::uint32_t>;
    const __m512i bytes =
        _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(low)));
    const __m512i words = _mm512_srlv_epi64(
        _mm512_set1_epi64(static_cast<long long>(std::uint64_t{load_bits<Both>(high)} << 8)),
        _mm512_load_si512(Upper::kShifts.data()));
    constexpr int kOrBoth = 0xF8;  // a | (b & c)
    const __m512i index =
        _mm512_ternarylogic_epi64(bytes, words, _mm512_set1_epi64(Upper::kMask << 8), kOrBoth);
    return _mm512_i64gather_epi64(index, book, 8);
  }
};

/// Base of the codebook types. Their Row(p), a row's block: dot(j, x), the products of register j,
/// a RowSums.
template <DType type, class Block_, int zero>
struct RowCodebook {
  using Block = Block_;
  static constexpr RowOrder kOrder = RowOrder::Columns;
  static constexpr int kZero = zero;

  class Rows : public RowScales<type, kOrder> {
   public:
    using RowScales<type, kOrder>::RowScales;
    template <int T, class F>
    CRIA_INLINE void each(int r, const std::byte* p, const RowValues<T>& x, F f) const {
      const typename RowType<type>::Row row(p);
      unroll<2>([&](int i) CRIA_INLINE {
        f(row.dot(2 * i, x), row.dot(2 * i + 1, x), this->scales(r, i));
      });
    }
  };
};

template <>
struct RowType<DType::IQ2_S> : RowCodebook<DType::IQ2_S, BlockIQ2_S, 0> {
  using Base = RowCodebook<DType::IQ2_S, BlockIQ2_S, 0>;
  using Block = Base::Block;
  class Row {
   public:
    CRIA_INLINE explicit Row(const std::byte* p) : p_(p) {}
    template <int T>
    [[nodiscard]] CRIA_INLINE RowSums<T> dot(int j, const RowValues<T>& x) const {
      const auto negative = load_bits<std::uint64_t>(p_ + offsetof(Block, signs) + 8 * j);
      const __m512i entries = GatheredEntries::of<UpperBits<std::uint8_t, 2, 2>>(
          kIq2sGrid.data(), p_ + offsetof(Block, index) + 8 * j,
          p_ + offsetof(Block, index_hi) + 2 * j);
      return x.dot(j, entries, _cvtu64_mask64(negative));
    }

   private:
    const std::byte* p_;
  };
};

/// Words of nine bits of index and seven of sign.
template <>
struct RowType<DType::IQ2_XS> : RowCodebook<DType::IQ2_XS, BlockIQ2_XS, 0> {
  using Base = RowCodebook<DType::IQ2_XS, BlockIQ2_XS, 0>;
  using Block = Base::Block;
  class Row {
   public:
    CRIA_INLINE explicit Row(const std::byte* p) : p_(p + offsetof(Block, q)) {
      const __m512i words = _mm512_loadu_si512(p_);
      const __m512i sevens = _mm512_permutexvar_epi8(_mm512_load_si512(kEvenBytes.data()),
                                                     _mm512_srli_epi16(words, 9));
      const __m512i signs = _mm512_permutex2var_epi8(_mm512_load_si512(kEvenSigns.data()), sevens,
                                                     _mm512_load_si512(kEvenSigns.data() + 64));
      const __m128i low = _mm512_castsi512_si128(signs), high = _mm512_extracti32x4_epi32(signs, 1);
      negative_[0] = static_cast<std::uint64_t>(_mm_cvtsi128_si64(low));
      negative_[1] = static_cast<std::uint64_t>(_mm_extract_epi64(low, 1));
      negative_[2] = static_cast<std::uint64_t>(_mm_cvtsi128_si64(high));
      negative_[3] = static_cast<std::uint64_t>(_mm_extract_epi64(high, 1));
    }
    template <int T>
    [[nodiscard]] CRIA_INLINE RowSums<T> dot(int j, const RowValues<T>& x) const {
      const __m512i entries = GatheredEntries::of_nine(kIq2xsGrid.data(), p_ + 16 * j);
      return x.dot(j, entries, _cvtu64_mask64(negative_[j]));
    }

   private:
    alignas(64) static constexpr auto kEvenBytes = [] {
      std::array<std::uint8_t, 64> from{};
      for (std::size_t i = 0; i < 32; ++i) from[i] = static_cast<std::uint8_t>(2 * i);
      return from;
    }();
    const std::byte* p_;
    alignas(32) std::uint64_t negative_[4];
  };
};

/// The plus or minus one of 32 columns is a product of its own, of their sums.
template <>
struct RowType<DType::IQ1_S> : RowCodebook<DType::IQ1_S, BlockIQ1_S, 8> {
  using Base = RowCodebook<DType::IQ1_S, BlockIQ1_S, 8>;
  using Block = Base::Block;
  class Rows : public Base::Rows {
   public:
    Rows(const std::byte* const* rows, std::size_t offset)
        : Base::Rows(rows, offset),
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
    template <int T>
    [[nodiscard]] CRIA_INLINE RowSums<T> dot(int j, const RowValues<T>& x) const {
      const __m512i entries = GatheredEntries::of<UpperBits<std::uint16_t, 3, 3>>(
          kIq1Grid.data(), p_ + offsetof(Block, index) + 8 * j, p_ + offsetof(Block, hi) + 4 * j);
      return x.dot(j, _mm512_add_epi8(entries, _mm512_set1_epi8(Base::kZero)));
    }

   private:
    const std::byte* p_;
  };
};

/// The plus or minus one of each entry is added to it.
template <>
struct RowType<DType::IQ1_M> : RowCodebook<DType::IQ1_M, BlockIQ1_M, 9> {
  using Base = RowCodebook<DType::IQ1_M, BlockIQ1_M, 9>;
  using Block = Base::Block;
  class Row {
   public:
    CRIA_INLINE explicit Row(const std::byte* p) : p_(p) {}
    template <int T>
    [[nodiscard]] CRIA_INLINE RowSums<T> dot(int j, const RowValues<T>& x) const {
      const std::byte* const hi = p_ + offsetof(Block, hi) + 4 * j;
      const __m512i entries = GatheredEntries::of<UpperBits<std::uint16_t, 4, 3>>(
          kIq1Grid.data(), p_ + offsetof(Block, index) + 8 * j, hi);
      const auto minus =
          static_cast<__mmask8>(_pext_u32(load_bits<std::uint32_t>(hi), 0x8888'8888));
      const __m512i one = _mm512_mask_blend_epi64(minus, _mm512_set1_epi8(Base::kZero + 1),
                                                  _mm512_set1_epi8(Base::kZero - 1));
      return x.dot(j, _mm512_add_epi8(entries, one));
    }

   private:
    const std::byte* p_;
  };
};

/// Types whose RowType gathers entries of a codebook.
constexpr bool gathers_entries(DType type) {
  return type == DType::IQ2_S || type == DType::IQ2_XS || type == DType::IQ1_S ||
         type == DType::IQ1_M;
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
