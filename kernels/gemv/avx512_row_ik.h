// IQ2_K … IQ6_K and IQ4_KSS a register of 64 columns at a time: see avx512_row.h. Values come from
// tables of up to 64 bytes by one permutation. Products of four do not fit in int16, so the sums of
// all sixteen columns meet their scale; shifts are products of scales and the activations' sums.
#pragma once

#include "kernels/gemv/avx512_row_k.h"
#include "kernels/lanes/ik.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Indices by which permutex2var moves the scale of register k's lane l, of sixteen of a
/// super-block in RowLanes, to the upper half of int32 k of lane l. [lane]
template <RowOrder order>
alignas(64) inline constexpr auto kScalesOfSums = [] {
  std::array<std::array<std::uint16_t, 32>, 4> from{};
  for (std::size_t lane = 0; lane < 4; ++lane)
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t scale = row_sixteen<order>(i / 2 % 4, i / 8);
      from[lane][i] = static_cast<std::uint16_t>(scale / 8 * 32 + lane * 8 + scale % 8);
    }
  return from;
}();

/// Base of the types whose blocks begin with d and extra. Type::codes(p, f) calls f(j, codes) for
/// each register j; bits above a code may be anything.
template <class Type, DType type, RowOrder order>
struct RowTable {
  using Block = typename Format<type>::Block;
  static constexpr RowOrder kOrder = order;
  static constexpr int kZero = 128;

  class Rows : public RowScales<type, order> {
    using V = RowLanes<Avx512>;

   public:
    Rows(const std::byte* const* rows, std::size_t offset)
        : RowScales<type, order>(rows, offset),
          heads_{V::load(rows, offset), V::load(rows + 1, offset)} {}
    template <int T>
    [[nodiscard]] CRIA_INLINE RowSums<T> total(int r, const std::byte* p,
                                               const RowValues<T>& x) const {
      const __m512i table = load_bytes(kTable);
      RowSums<T> dots[4];
      Type::codes(p, [&](auto j, __m512i code)
                         CRIA_INLINE { dots[j] = x.dot(j, _mm512_permutexvar_epi8(code, table)); });
      const __m512i from = _mm512_load_si512(kScalesOfSums<order>[r / 2].data());
      const __m512i scales = _mm512_srai_epi32(
          _mm512_permutex2var_epi16(this->lanes(r % 2), from, this->lanes(r % 2, 1)), 16);
      return sums_by<T>([&](auto t) CRIA_INLINE {
        return _mm512_mullo_epi32(add_pairs(add_neighbours(dots[0][t], dots[1][t]),
                                            add_neighbours(dots[2][t], dots[3][t])),
                                  scales);
      });
    }
    /// Integers that the shifts add to the sums of the eight rows.
    [[nodiscard]] CRIA_INLINE __m256i more(const std::int16_t* sum) const {
      __m512i shifted[2];
      unroll<2>([&](int k) CRIA_INLINE {
        const __m512i extra = _mm512_shuffle_epi8(heads_[k], _mm512_set1_epi16(0x0302));
        shifted[k] = _mm512_setzero_si512();
        unroll<2>([&](int i) CRIA_INLINE {
          const __mmask32 moved = _mm512_test_epi16_mask(extra, V::same(&kBits[8 * i]));
          shifted[k] = _mm512_dpwssd_epi32(
              shifted[k], _mm512_maskz_mov_epi16(moved, this->lanes(k, i)), V::same(sum + 8 * i));
        });
      });
      return _mm256_mullo_epi32(V::sum_rows(shifted), _mm256_set1_epi32(Block::kShift));
    }

   private:
    static_assert(offsetof(Block, extra) == 2);
    alignas(16) static constexpr std::uint16_t kBits[16] = {
        1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    static constexpr auto kTable =
        bytes_by([](std::size_t i) { return Block::kValues[i % Block::kValues.size()] + kZero; });
    __m512i heads_[2];
  };
};

template <>
struct RowType<DType::IQ2_K> : RowTable<RowType<DType::IQ2_K>, DType::IQ2_K, RowOrder::Halves> {
  template <class F>
  CRIA_INLINE static void codes(const std::byte* p, F f) {
    const __m512i q = load_once(p + offsetof(Block, q));
    unroll<4>([&](int j) CRIA_INLINE { f(j, _mm512_srli_epi16(q, 2 * j)); });
  }
};

template <>
struct RowType<DType::IQ3_K> : RowTable<RowType<DType::IQ3_K>, DType::IQ3_K, RowOrder::Halves> {
  template <class F>
  CRIA_INLINE static void codes(const std::byte* p, F f) {
    constexpr int kSelect = 0xCA;  // a ? b : c
    const __m512i lo = load_once(p + offsetof(Block, lo)), hi = third_bits(p + offsetof(Block, hi)),
                  all = _mm512_set1_epi8(-1);
    unroll<4>([&](auto j) CRIA_INLINE {
      f(j, _mm512_ternarylogic_epi32(_mm512_set1_epi8(4), RowLanes<Avx512>::take<j - 2>(hi, all),
                                     _mm512_srli_epi16(lo, 2 * j), kSelect));
    });
  }
};

template <>
struct RowType<DType::IQ4_K> : RowTable<RowType<DType::IQ4_K>, DType::IQ4_K, RowOrder::Lanes> {
  template <class F>
  CRIA_INLINE static void codes(const std::byte* p, F f) {
    unroll<2>([&](auto i) CRIA_INLINE {
      const __m512i lo = load_once(p + offsetof(Block, lo) + 64 * i);
      f(std::integral_constant<int, 2 * i>{}, lo);
      f(std::integral_constant<int, 2 * i + 1>{}, _mm512_srli_epi16(lo, 4));
    });
  }
};

template <>
struct RowType<DType::IQ5_K> : RowTable<RowType<DType::IQ5_K>, DType::IQ5_K, RowOrder::Nibbles> {
  template <class F>
  CRIA_INLINE static void codes(const std::byte* p, F f) {
    const __m512i hi = load_twice(p + offsetof(Block, hi));
    unroll<2>([&](auto i) CRIA_INLINE {
      const __m512i lo = load_once(p + offsetof(Block, lo) + 64 * i);
      f(std::integral_constant<int, 2 * i>{}, with_top<4 * i, 1>(lo, hi));
      f(std::integral_constant<int, 2 * i + 1>{},
        with_top<4 * i + 1, 1>(_mm512_srli_epi16(lo, 4), hi));
    });
  }
};

template <>
struct RowType<DType::IQ6_K> : RowTable<RowType<DType::IQ6_K>, DType::IQ6_K, RowOrder::Nibbles> {
  template <class F>
  CRIA_INLINE static void codes(const std::byte* p, F f) {
    unroll<2>([&](auto i) CRIA_INLINE {
      const __m512i lo = load_once(p + offsetof(Block, lo) + 64 * i),
                    hi = load_twice(p + offsetof(Block, hi) + 32 * i);
      f(std::integral_constant<int, 2 * i>{}, with_top<0, 2, 4>(lo, hi));
      f(std::integral_constant<int, 2 * i + 1>{}, with_top<2, 2, 4>(_mm512_srli_epi16(lo, 4), hi));
    });
  }
};

/// The lowest bits of the int16, as a mask, are the bytes that hold scales and shifts.
template <>
struct RowType<DType::IQ4_KSS> {
  using Block = BlockIQ4_KSS;
  static constexpr RowOrder kOrder = RowOrder::Lanes;
  static constexpr int kZero = 128;

  class Rows {
   public:
    Rows(const std::byte* const* rows, std::size_t offset)
        : d_(LaneType<RowLanes<Avx512>, DType::IQ4_KSS>::d(rows, offset)) {}
    [[nodiscard]] __m256 d() const { return d_; }
    template <int T>
    [[nodiscard]] CRIA_INLINE RowSums<T> total(int, const std::byte* p,
                                               const RowValues<T>& x) const {
      const __m512i table = RowLanes<Avx512>::same(&Iq4Nibbles<RowLanes<Avx512>>::kBiased);
      RowSums<T> dots[2];
      __mmask32 low_bits[2];
      unroll<2>([&](int i) CRIA_INLINE {
        const __m512i words = load_once(p + 64 * i),
                      even = _mm512_and_si512(words, _mm512_set1_epi16(-2)),
                      codes = _mm512_xor_si512(even, _mm512_srli_epi16(even, 1));
        low_bits[i] = _mm512_test_epi16_mask(words, _mm512_set1_epi16(1));
        const RowSums<T> low = x.dot(2 * i, _mm512_permutexvar_epi8(codes, table)),
                         high = x.dot(2 * i + 1,
                                      _mm512_permutexvar_epi8(_mm512_srli_epi16(codes, 4), table));
        dots[i] = sums_by<T>([&](auto t) CRIA_INLINE { return _mm512_add_epi32(low[t], high[t]); });
      });
      // Bytes of the sub-blocks l and l + 4 in lane l, twice, as the sums lie.
      alignas(64) static constexpr auto kBytes = bytes_by(
          [](std::size_t i) { return i % 4 == 0 ? i / 16 + i / 4 % 2 * 4 : std::size_t{0x80}; });
      const auto bits =
          static_cast<std::uint64_t>(low_bits[1]) << 32 | static_cast<std::uint64_t>(low_bits[0]);
      const __m512i bytes = _mm512_shuffle_epi8(_mm512_set1_epi64(static_cast<std::int64_t>(bits)),
                                                load_bytes(kBytes));
      const __mmask16 moved = _mm512_test_epi32_mask(bytes, _mm512_set1_epi32(1));
      const __m512i scales =
          _mm512_sub_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(254)), _mm512_set1_epi32(127));
      return sums_by<T>([&](auto t) CRIA_INLINE {
        const __m512i plain = add_neighbours(dots[0][t], dots[1][t]);
        return _mm512_mullo_epi32(_mm512_mask_add_epi32(plain, moved, plain, shifts(x, t)), scales);
      });
    }

   private:
    /// Integers that shifts add to sums of four columns: starts are -128 times the activations.
    template <int T>
    CRIA_INLINE static __m512i shifts(const RowValues<T>& x, int t) {
      static_assert(kZero == 128 && BlockIQ4_KSS::kShift == 4);
      const __m512i starts = add_neighbours(_mm512_add_epi32(x.start(0, t), x.start(1, t)),
                                            _mm512_add_epi32(x.start(2, t), x.start(3, t)));
      return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_srai_epi32(starts, 5));
    }
    __m256 d_;
  };
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
