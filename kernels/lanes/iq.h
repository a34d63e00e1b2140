// The codebook types of IQ2 and IQ3 in lanes. A half of a block, 128 values, is sixteen groups of
// eight values with a byte of signs each; codebook indices are unpacked as vectors, entries are
// loaded or permuted.
#pragma once

#include "kernels/formats/iq.h"
#include "kernels/lanes/ik.h"      // IWYU pragma: export
#include "kernels/lanes/ik_row.h"  // IWYU pragma: export
#include "kernels/lanes/iq1.h"     // IWYU pragma: export
#include "kernels/lanes/k.h"
#include "kernels/lanes/trellis.h"  // IWYU pragma: export
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// A codebook in the forms that lookups want: its entries, or its codes and what their digits stand
/// for.
template <const auto& entries_, const auto& planes_, const auto& levels_>
struct Codebook {
  static constexpr auto& entries = entries_;
  static constexpr auto& planes = planes_;
  static constexpr auto& levels = levels_;
  static constexpr std::size_t kSize = std::tuple_size_v<std::remove_cvref_t<decltype(entries_)>>;
};

/// even_signs() of every seven bits.
alignas(64) inline constexpr auto kEvenSigns = [] {
  std::array<std::uint8_t, 128> signs{};
  for (std::uint32_t seven = 0; seven < 128; ++seven) signs[seven] = even_signs(seven);
  return signs;
}();

/// Calls f(j, w0, w1) for each 32 of the 128 values of a half. index: low bytes of the codebook
/// indices, sixteen per lane and vector (one vector of groups of eight values, two of groups of
/// four); top: their higher bits. w: the entries' bytes.
template <class V, class Book, class Vec, std::size_t N, class F>
CRIA_INLINE inline void look_up(const Vec (&index)[N], const Vec (&top)[N], F&& f) {
  if constexpr (V::kPermutes) {
    V::template look_up<Book>(index, top, f);
  } else {
    constexpr int kPerLane = N == 1 ? 2 : 4;  // entries in sixteen bytes
    typename V::Indices indices[2 * N];
    for (std::size_t v = 0; v < N; ++v) {
      indices[2 * v].take(V::zip_low8(index[v], top[v]));
      indices[2 * v + 1].take(V::zip_high8(index[v], top[v]));
    }
    const auto entries = [&](int i) CRIA_INLINE {
      const int first = i * kPerLane;
      return V::entries(Book::entries.data(), [&](int lane, int n) CRIA_INLINE {
        return indices[first / 8].at(lane, first % 8 + n);
      });
    };
    unroll<4>([&](auto j) CRIA_INLINE { f(j, entries(2 * j), entries(2 * j + 1)); });
  }
}

/// The same where a type's index(block, g) reads the index of group g of 4 or 8 values from the
/// block itself.
template <class V, class Type, class F>
CRIA_INLINE inline void look_up_in_place(typename V::RowPtr rows, std::size_t offset, int half,
                                         F&& f) {
  constexpr int kPerLane = Type::kIndexVecs == 1 ? 2 : 4;
  const auto entries = [&](int i) CRIA_INLINE {
    return V::entries(Type::Book::entries.data(), [&](int lane, int n) CRIA_INLINE {
      return Type::index(rows[lane * V::kPacks] + offset, (8 * half + i) * kPerLane + n);
    });
  };
  unroll<4>([&](auto j) CRIA_INLINE { f(j, entries(2 * j), entries(2 * j + 1)); });
}

/// Base of the IQ2 and IQ3 types: w = kZero ± magnitude. Type::half() fills the codebook indices of
/// 128 values and returns a byte of signs per eight values.
template <class V, class Type, class Block, int scale_count, int zero>
struct LaneCodebook : LaneBlock256<V, Block, scale_count> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  static constexpr int kZero = zero, kMax = 2 * zero;

  static auto d(RowPtr rows, std::size_t offset) {
    return V::mul(V::template load_f16<sizeof(Block), offsetof(Block, d)>(rows, offset),
                  V::splat_float(Type::kScaleOfD));
  }

  template <class F>
  CRIA_INLINE static void weights(RowPtr rows, std::size_t offset, F&& f) {
    entries(rows, offset, [&](int at, auto j, Vec w0, Vec w1, const auto& signs) CRIA_INLINE {
      f(at, V::template with_signs<2 * j>(w0, signs, V::splat8(zero)),
        V::template with_signs<2 * j + 1>(w1, signs, V::splat8(zero)));
    });
  }
  static constexpr int kMagnitude = zero;
  template <class F>
  CRIA_INLINE static void magnitudes(RowPtr rows, std::size_t offset, F&& f) {
    entries(rows, offset, [&](int at, auto j, Vec w0, Vec w1, const auto& signs) CRIA_INLINE {
      f(at, w0, V::template negative<2 * j>(signs), w1, V::template negative<2 * j + 1>(signs));
    });
  }

 private:
  /// f(which 32, which of the half's four, entries, signs of the half).
  template <class F>
  CRIA_INLINE static void entries(RowPtr rows, std::size_t offset, F&& f) {
    // Half a block of indices of four values is too short for a loop: what it keeps in registers is
    // loaded again.
    each_part<kLongCode<V> && Type::kIndexVecs == 1, 2>([&](auto half) CRIA_INLINE {
      Vec index[Type::kIndexVecs], top[Type::kIndexVecs];
      const typename V::Signs signs = V::signs(Type::half(rows, offset, half, index, top));
      const auto give = [&](auto j, Vec w0, Vec w1)
                            CRIA_INLINE { f(4 * half + j, j, w0, w1, signs); };
      if constexpr (!V::kPermutes && requires { Type::index(rows[0], 0); })
        look_up_in_place<V, Type>(rows, offset, half, give);
      else
        look_up<V, typename Type::Book>(index, top, give);
    });
  }

 protected:
  /// Sixteen bytes of seven signs, the eighth making their number even.
  static Vec even_signs(Vec sevens) {
    const Vec folded =
        V::bit_and(V::bit_xor(sevens, V::template take<4>(sevens, V::splat8(15))), V::splat8(15));
    return V::bit_or(sevens, V::lookup(V::same(&kParity), folded));
  }
  /// 2s + 1 for the s in the nibbles of `bytes` of each lane that `from` names, twice each.
  static Vec odd_scales(Vec bytes, const LaneConstant<std::uint8_t>& from) {
    const Vec high = V::mul16(V::lookup(bytes, V::same(&from)), V::same(&kToHighNibble));
    return V::bit_or(V::bit_and(V::template shr16<3>(high), V::splat16(30)), V::splat16(1));
  }
  /// 2s + 1 for the s in the top four bits of 4 + 4 int32.
  static Vec odd_scales_of_tops(Vec a, Vec b) {
    const Vec tops =
        V::bit_or(V::lookup(a, V::same(&kTopsFirst)), V::lookup(b, V::same(&kTopsSecond)));
    return V::bit_or(V::bit_and(V::template shr16<3>(tops), V::splat16(30)), V::splat16(1));
  }
  static constexpr std::uint8_t kNo = 0x80;
  template <int first>
  static constexpr LaneConstant<std::uint8_t> kNibblesFrom = {
      {first, kNo, first, kNo, first + 1, kNo, first + 1, kNo, first + 2, kNo, first + 2, kNo,
       first + 3, kNo, first + 3, kNo}};

 private:
  static constexpr LaneConstant<std::uint8_t>
      kParity = {{0, kNo, kNo, 0, kNo, 0, 0, kNo, kNo, 0, 0, kNo, 0, kNo, kNo, 0}},
      kTopsFirst = {{3, kNo, 7, kNo, 11, kNo, 15, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo}},
      kTopsSecond = {{kNo, kNo, kNo, kNo, kNo, kNo, kNo, kNo, 3, kNo, 7, kNo, 11, kNo, 15, kNo}};
  static constexpr LaneConstant<std::uint16_t> kToHighNibble = {{16, 1, 16, 1, 16, 1, 16, 1}};
};

template <class V>
struct LaneType<V, DType::IQ2_XXS>
    : LaneCodebook<V, LaneType<V, DType::IQ2_XXS>, BlockIQ2_XXS, 8, 43> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Book = Codebook<kIq2xxsGrid, kIq2xxsPlanes, kIq2Levels>;
  static constexpr std::size_t kIndexVecs = 1;
  static constexpr float kScaleOfD = 0.125F;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    Vec signs[2];
    for (int h = 0; h < 2; ++h)
      signs[h] = V::odd_dwords(sub(rows, offset, 2 * h), sub(rows, offset, 2 * h + 1));
    s[0] = LaneType::odd_scales_of_tops(signs[0], signs[1]);
  }
  static std::size_t index(const std::byte* block, int g) {
    return static_cast<std::size_t>(block[offsetof(BlockIQ2_XXS, sub) + 8 * (g / 4) + g % 4]);
  }
  static Vec half(RowPtr rows, std::size_t offset, int h, Vec* index, Vec* top) {
    const Vec a = sub(rows, offset, 2 * h), b = sub(rows, offset, 2 * h + 1);
    index[0] = V::even_dwords(a, b);
    top[0] = V::zero();
    return LaneType::even_signs(V::sevens(V::odd_dwords(a, b)));
  }

 private:
  /// Two sub-blocks of 32.
  static Vec sub(RowPtr rows, std::size_t offset, int pair) {
    return V::load(rows, offset + offsetof(BlockIQ2_XXS, sub) + 16 * pair);
  }
};

template <class V>
struct LaneType<V, DType::IQ2_XS>
    : LaneCodebook<V, LaneType<V, DType::IQ2_XS>, BlockIQ2_XS, 16, 43> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Book = Codebook<kIq2xsGrid, kIq2xsPlanes, kIq2Levels>;
  static constexpr std::size_t kIndexVecs = 1;
  static constexpr float kScaleOfD = 0.125F;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec tail = V::load(rows, offset + sizeof(BlockIQ2_XS) - 16);
    s[0] = LaneType::odd_scales(tail, LaneType::template kNibblesFrom<8>);
    s[1] = LaneType::odd_scales(tail, LaneType::template kNibblesFrom<12>);
  }
  static std::size_t index(const std::byte* block, int g) {
    std::uint16_t q;
    std::memcpy(&q, block + offsetof(BlockIQ2_XS, q) + 2 * g, sizeof q);
    return q & 511U;
  }
  static Vec half(RowPtr rows, std::size_t offset, int h, Vec* index, Vec* top) {
    const std::size_t at = offset + offsetof(BlockIQ2_XS, q) + 32 * h;
    const Vec a = V::load(rows, at), b = V::load(rows, at + 16), high = V::high_bytes(a, b);
    index[0] = V::low_bytes(a, b);
    top[0] = V::bit_and(high, V::splat8(1));
    return LaneType::even_signs(V::template take<1>(high, V::splat8(127)));
  }
};

template <class V>
struct LaneType<V, DType::IQ2_S> : LaneCodebook<V, LaneType<V, DType::IQ2_S>, BlockIQ2_S, 16, 43> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Book = Codebook<kIq2sGrid, kIq2sPlanes, kIq2Levels>;
  static constexpr std::size_t kIndexVecs = 1;
  static constexpr float kScaleOfD = 0.125F;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[2]) {
    const Vec tail = V::load(rows, offset + sizeof(BlockIQ2_S) - 16);
    s[0] = LaneType::odd_scales(tail, LaneType::template kNibblesFrom<8>);
    s[1] = LaneType::odd_scales(tail, LaneType::template kNibblesFrom<12>);
  }
  static Vec half(RowPtr rows, std::size_t offset, int h, Vec* index, Vec* top) {
    index[0] = V::load(rows, offset + offsetof(BlockIQ2_S, index) + 16 * h);
    const Vec tail = V::load(rows, offset + sizeof(BlockIQ2_S) - 16);
    const Vec hi = V::lookup(tail, V::add8(V::same(&kFours), V::splat8(4 * h)));
    top[0] =
        V::bit_or(V::bit_or(V::bit_and(hi, mask(0)), V::template take<2>(hi, mask(1))),
                  V::bit_or(V::template take<4>(hi, mask(2)), V::template take<6>(hi, mask(3))));
    return V::load(rows, offset + offsetof(BlockIQ2_S, signs) + 16 * h);
  }

 private:
  static Vec mask(int byte) { return V::same(&kMask[byte]); }
  static constexpr LaneConstant<std::uint8_t> kFours = {
      {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}};
  static constexpr LaneConstant<std::uint32_t> kMask[4] = {
      {{3, 3, 3, 3}},
      {{0x300, 0x300, 0x300, 0x300}},
      {{0x30000, 0x30000, 0x30000, 0x30000}},
      {{0x3000000, 0x3000000, 0x3000000, 0x3000000}}};
};

template <class V>
struct LaneType<V, DType::IQ3_XXS>
    : LaneCodebook<V, LaneType<V, DType::IQ3_XXS>, BlockIQ3_XXS, 8, 62> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Book = Codebook<kIq3xxsGrid, kIq3xxsPlanes, kIq3xxsLevels>;
  static constexpr std::size_t kIndexVecs = 2;
  static constexpr bool kEven = true;
  static constexpr float kScaleOfD = 0.25F;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    s[0] =
        LaneType::odd_scales_of_tops(signs_scales(rows, offset, 0), signs_scales(rows, offset, 1));
  }
  static std::size_t index(const std::byte* block, int g) {
    return static_cast<std::size_t>(block[offsetof(BlockIQ3_XXS, index) + g]);
  }
  static Vec half(RowPtr rows, std::size_t offset, int h, Vec* index, Vec* top) {
    const std::size_t at = offset + offsetof(BlockIQ3_XXS, index) + 32 * h;
    for (int v = 0; v < 2; ++v) {
      index[v] = V::load(rows, at + 16 * v);
      top[v] = V::zero();
    }
    return LaneType::even_signs(V::sevens(signs_scales(rows, offset, h)));
  }

 private:
  static Vec signs_scales(RowPtr rows, std::size_t offset, int h) {
    return V::load(rows, offset + offsetof(BlockIQ3_XXS, signs_scale) + 16 * h);
  }
};

template <class V>
struct LaneType<V, DType::IQ3_S> : LaneCodebook<V, LaneType<V, DType::IQ3_S>, BlockIQ3_S, 8, 15> {
  using Vec = typename V::Vec;
  using RowPtr = typename V::RowPtr;
  using Book = Codebook<kIq3sGrid, kIq3sPlanes, kIq3sLevels>;
  static constexpr std::size_t kIndexVecs = 2;
  static constexpr float kScaleOfD = 1.0F;
  static void scales(RowPtr rows, std::size_t offset, Vec (&s)[1]) {
    s[0] = LaneType::odd_scales(V::load(rows, offset + sizeof(BlockIQ3_S) - 16),
                                LaneType::template kNibblesFrom<12>);
  }
  static Vec half(RowPtr rows, std::size_t offset, int h, Vec* index, Vec* top) {
    const std::size_t at = offset + offsetof(BlockIQ3_S, index) + 32 * h;
    const Vec hi = V::load(rows, offset + offsetof(BlockIQ3_S, index_hi));
    for (int v = 0; v < 2; ++v) {
      const Vec bits = V::lookup(hi, V::add8(V::same(&kSpread<0>), V::splat8(4 * h + 2 * v)));
      index[v] = V::load(rows, at + 16 * v);
      top[v] = V::add_where(V::zero(), bits, V::same(&kBitOfByte), V::splat8(1));
    }
    return V::load(rows, offset + offsetof(BlockIQ3_S, signs) + 16 * h);
  }
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
