// Encoders of types without an offset: Q4_0, Q5_0, Q6_0, IQ4_NL (32 weights d·value), Q3_K, Q6_K,
// IQ4_XS (d·s·value, an integer s per sub-block), TQ1_0 and TQ2_0 (d·t, t of -1, 0, 1).
#pragma once

#include "kernels/encode/lanes.h"
#include "kernels/encode/pack.h"
#include "kernels/encode/search.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// Q4_0, Q5_0, Q6_0 and IQ4_NL: 32 weights d·value, the values of a grid that reaches further on one
// side of 0.

/// Stretches of the grid relative to the peak, from too short to too long, including 1.
template <class Block>
inline constexpr Starts kStarts32 = {0.9F, 1.25F, 8};
template <>
inline constexpr Starts kStarts32<BlockQ5_0> = {0.94F, 1.1F, 9};
template <>
inline constexpr Starts kStarts32<BlockQ6_0> = {0.96F, 1.05F, 8};

template <class Isa, class Block, class Grid, bool weighted>
void encode_symmetric32(const float* x, const float* importance, std::size_t n_blocks,
                        std::byte* out) {
  using V = F32x16<Isa>;
  const BlockLanes<Isa, 32, weighted> block(x, importance, n_blocks);
  const SymmetricSearch<Isa, Grid, 32, weighted> search(block);
  auto best = search.best_of(kStarts32<Block>);
  for (int again = 0; again < 2; ++again) best.better_of(search.fit(inverse_or_0(best.scale)));
  const V d = to_best_f16_scale(best.scale, [&](V scale) { return search.error(scale); }),
          factor = inverse_or_0(d);
  store_blocks32<Isa, Block>([&](std::size_t i) { return Grid::code(block.x(i) * factor); }, d, d,
                             n_blocks, out);
}

template <class Isa, class Block, class Grid>
inline constexpr EncodeFn kSymmetric32 =
    encode_batches<Block, 32, kFloatLanes, encode_symmetric32<Isa, Block, Grid, kWeightedOnly<Isa>>,
                   encode_symmetric32<Isa, Block, Grid, true>>;

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q4_0> =
    kSymmetric32<Isa, BlockQ4_0, IntegerGrid<Isa, -8, 7>>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q5_0> =
    kSymmetric32<Isa, BlockQ5_0, IntegerGrid<Isa, -16, 15>>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q6_0> =
    kSymmetric32<Isa, BlockQ6_0, IntegerGrid<Isa, -32, 31>>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ4_NL> =
    kSymmetric32<Isa, BlockIQ4_NL, Iq4Grid<Isa>>;

// Q3_K, Q6_K, IQ4_XS and the tables with a shift: d·s·value, an integer s of either sign per
// sub-block.

/// Effort of the search. `starts` and `scales` stretch the grid over the weight of the largest
/// magnitude (1: it lies at the end), for the search of d and for the integers s.
struct SymmetricEffort {
  Starts starts, scales;
  int d_tried;   ///< values of d, 3 % apart
  int rounds;    ///< rounds of: least squares for d, then neighbours of s
  int d_beside;  ///< values of d tried around the best
};
template <class Block>
inline constexpr SymmetricEffort kSymmetricEffort{};
template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockQ3_K> = {
    {0.75F, 1.6F, 6}, {0.6F, 2.2F, 16}, 2, 2, 4};
template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockQ6_K> = {
    {0.85F, 1.03F, 4}, {0.82F, 1.03F, 10}, 1, 1, 0};
template <>
inline constexpr SymmetricEffort kSymmetricEffort<BlockIQ4_XS> = {
    {0.85F, 1.2F, 4}, {0.8F, 1.3F, 6}, 1, 1, 0};

/// Shifted: the grid of sub-blocks whose m is 1, instead of Grid; Grid itself for types without a
/// shift.
template <class Isa, class Block, class Grid, class Shifted, std::size_t N, ScaleRange range,
          bool weighted>
class SymmetricSuper {
  using V = F32x16<Isa>;
  using Scales = SuperScales<Isa>;
  static constexpr std::size_t kGroup = 256 / N;
  static constexpr float kLow = range.low, kHigh = range.high, kStep = range.step;
  static constexpr bool kShifts = !std::is_same_v<Grid, Shifted>;
  static constexpr const SymmetricEffort& kEffort = kSymmetricEffort<Block>;

 public:
  SymmetricSuper(const float* x, const float* importance, std::size_t n_blocks)
      : block_(x, importance, n_blocks * kGroup, kGroup), search_(block_), shifted_(block_) {
    auto best = search_.best_of(kEffort.starts);
    V fitted[2] = {best.scale, best.scale};
    if constexpr (kShifts) {
      const auto other = shifted_.best_of(kEffort.starts);
      fitted[1] = other.scale;
      best.better_of(other);
    }
    const V peak = group_peak<Isa, kGroup>(best.scale);
    for (int i = 0; i < kEffort.d_tried; ++i) {
      Scales r;
      r.d = to_f16_scale(peak * V::broadcast((1 + 0.03F * static_cast<float>(i)) / kLow));
      choose_scales(r, fitted);
      for (int k = 0; k < kEffort.rounds; ++k) refit(r);
    }
    for (int i = 0; i < kEffort.d_beside; ++i) try_beside(i);
    if constexpr (kStep == 2) {  // neither s nor a value can be 0: only d can
      Scales none;
      try_scale(none, search_, V::broadcast(0), 0);
      best_.template better_super_blocks<kGroup>(none);
    }
  }
  void store(std::size_t n_blocks, std::byte* out) const {
    const V factor = inverse_or_0(best_.d * best_.s);
    const auto code = [&](std::size_t i) {
      const V x = block_.x(i) * factor;
      return by_shift(best_.m, Grid::code(x), [&] { return Shifted::code(x); });
    };
    store_super_blocks<Isa, Block, N>(code, best_.d, best_.d, best_.s - V::broadcast(kLow), best_.m,
                                      n_blocks, out);
  }

 private:
  /// Returns other() where a sub-block has the shifted grid, else plain.
  template <class Other>
  static V by_shift(const V& m, const V& plain, Other other) {
    if constexpr (kShifts) return select_less(V::broadcast(0.5F), m, other(), plain);
    return plain;
  }
  template <class Search>
  static void try_scale(Scales& r, const Search& search, const V& s, float m) {
    const V whole = nearest_scale<Isa, range>(s);
    r.better_sub_blocks(whole, V::broadcast(m), search.error(r.d * whole));
  }
  /// Tries the neighbours of s.
  void try_neighbours(Scales& r, const V& s) const {
    for (const float beside : {0.0F, -kStep, kStep}) {
      try_scale(r, search_, s + V::broadcast(beside), 0);
      if constexpr (kShifts) try_scale(r, shifted_, s + V::broadcast(beside), 1);
    }
  }
  /// Tries the integer nearest to the fit, and integers that put the peak at the stretches of
  /// kEffort.
  template <class Search>
  void choose_scales(Scales& r, const Search& search, const V& fitted, float m) const {
    using Values = typename Search::Values;
    const V inverse_d = inverse_or_0(r.d), ratio = search.peak() * inverse_d;
    try_scale(r, search, fitted * inverse_d, m);
    for (int i = 0; i < kEffort.scales.count; ++i) {
      const float stretch = 1 / kEffort.scales.at(i);
      try_scale(r, search, ratio * V::broadcast(stretch / Values::kBottom), m);
      try_scale(r, search, ratio * V::broadcast(stretch / Values::kTop), m);
    }
  }
  void choose_scales(Scales& r, const V (&fitted)[2]) {
    choose_scales(r, search_, fitted[0], 0);
    if constexpr (kShifts) choose_scales(r, shifted_, fitted[1], 1);
    best_.template better_super_blocks<kGroup>(r);
  }
  /// Fits d by least squares under the codes, then tries the neighbours of each s.
  void refit(Scales& r) {
    V xq, qq;
    const V factor = inverse_or_0(r.d * r.s);
    search_.sums(factor, xq, qq);
    if constexpr (kShifts) {
      V other_xq, other_qq;
      shifted_.sums(factor, other_xq, other_qq);
      xq = by_shift(r.m, xq, [&] { return other_xq; });
      qq = by_shift(r.m, qq, [&] { return other_qq; });
    }
    const V d = group_sum<Isa, kGroup>(xq * r.s) / group_sum<Isa, kGroup>(qq * r.s * r.s);
    Scales next;
    next.d = to_f16_scale(select_less(abs(d), V::broadcast(0x1p100F), d, r.d));  // all 0: stays
    try_neighbours(next, r.s);
    best_.template better_super_blocks<kGroup>(next);
    r = next;
  }

  /// Moves the best d by up to 4 %, and tries the neighbours of each s.
  void try_beside(int i) {
    constexpr float kFarthest = 0.04F;
    const float part = (2 * static_cast<float>(i) + 1) / static_cast<float>(kEffort.d_beside) - 1;
    Scales r;
    r.d = to_f16_scale(best_.d * V::broadcast(1 + kFarthest * part));
    try_neighbours(r, best_.s * V::broadcast(1 / (1 + kFarthest * part)));
    best_.template better_super_blocks<kGroup>(r);
  }

  BlockLanes<Isa, N, weighted> block_;
  SymmetricSearch<Isa, Grid, N, weighted> search_;
  SymmetricSearch<Isa, Shifted, N, weighted> shifted_;
  Scales best_;
};

/// Values of a Grid, or a Shifted one, an s for N values.
template <class Isa, class Block, class Grid, std::size_t N, ScaleRange range, class Shifted = Grid>
inline constexpr EncodeFn kSymmetricSuper = encode_batches<
    Block, 256, kFloatLanes * N / 256,
    encode_by<SymmetricSuper<Isa, Block, Grid, Shifted, N, range, kWeightedOnly<Isa>>>,
    encode_by<SymmetricSuper<Isa, Block, Grid, Shifted, N, range, true>>>;

inline constexpr ScaleRange kFourBits = {-8, 7}, kSixBits = {-32, 31}, kEightBits = {-128, 127};
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q3_K> =
    kSymmetricSuper<Isa, BlockQ3_K, IntegerGrid<Isa, -4, 3>, 16, kSixBits>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::Q6_K> =
    kSymmetricSuper<Isa, BlockQ6_K, IntegerGrid<Isa, -32, 31>, 16, kEightBits>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ4_XS> =
    kSymmetricSuper<Isa, BlockIQ4_XS, Iq4Grid<Isa>, 32, kSixBits>;

// TQ1_0 and TQ2_0: 256 weights d·t, t of -1, 0, 1.

/// One super-block, sixteen runs of sixteen values in lanes. Starts are fractions of the largest
/// magnitude; the first one is exact for ternary weights.
template <class Isa, class Block, bool weighted>
void encode_ternary(const float* x, const float* importance, std::size_t n_blocks, std::byte* out) {
  using V = F32x16<Isa>;
  using Grid = IntegerGrid<Isa, -1, 1>;
  const BlockLanes<Isa, 16, weighted> block(x, importance, n_blocks * kFloatLanes, kFloatLanes);
  const SymmetricSearch<Isa, Grid, 16, weighted> search(block);
  ScaleFit<Isa> best;
  const auto consider = [&](const V& factor) {
    V xq, qq;
    search.sums(factor, xq, qq);
    xq = group_sum<Isa, kFloatLanes>(xq);
    const V scale = xq / group_sum<Isa, kFloatLanes>(qq);
    best.better_of({scale, xq * scale});
  };
  const V inverse = inverse_or_0(abs(group_peak<Isa, kFloatLanes>(search.peak())));
  constexpr float kParts[] = {1.0F, 1.15F, 1.3F, 1.5F, 1.7F, 1.9F, 2.1F,
                              2.4F, 2.7F,  3.1F, 3.6F, 4.5F, 6.0F, 10.0F};
  for (const float part : kParts) consider(V::broadcast(part) * inverse);
  for (int again = 0; again < 4; ++again) consider(inverse_or_0(best.scale));
  const V d = to_f16_scale(best.scale), factor = inverse_or_0(d);
  store_super_blocks<Isa, Block, 16>([&](std::size_t i) { return Grid::code(block.x(i) * factor); },
                                     d, d, V::broadcast(0), V::broadcast(0), n_blocks, out);
}

template <class Isa, class Block>
inline constexpr EncodeFn kTernary = encode_batches<Block, 256, kFloatLanes * 16 / 256,
                                                    encode_ternary<Isa, Block, kWeightedOnly<Isa>>,
                                                    encode_ternary<Isa, Block, true>>;

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::TQ1_0> = kTernary<Isa, BlockTQ1_0>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::TQ2_0> = kTernary<Isa, BlockTQ2_0>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
