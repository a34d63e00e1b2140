// Q3_K, Q6_K and IQ4_XS: d·s·value, an integer s of either sign per sub-block.
#pragma once

#include "kernels/encode/encoder.h"
#include "kernels/encode/super.h"

namespace cria {

/// How hard to search. `starts` and `scales` are stretches of the grid over the weight of the
/// largest magnitude (1: it lies at the end): of the search for d, and of the integers s that are
/// tried with it.
struct SymmetricEffort {
  Starts starts, scales;
  int d_tried;   ///< values of d, 3 % apart
  int rounds;    ///< of least squares for d, then s beside the present ones
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

template <class Isa, class Block, class Grid, std::size_t N, int s_bits, bool weighted>
class SymmetricSuper {
  using V = F32x16<Isa>;
  using Scales = SuperScales<Isa>;
  static constexpr std::size_t kGroup = 256 / N;
  static constexpr float kLow = -(1 << (s_bits - 1)), kHigh = (1 << (s_bits - 1)) - 1;
  static constexpr const SymmetricEffort& kEffort = kSymmetricEffort<Block>;

 public:
  SymmetricSuper(const float* x, const float* importance, std::size_t n_blocks)
      : block_(x, importance, n_blocks * kGroup, kGroup), search_(block_) {
    const auto best = search_.best_of(kEffort.starts);
    const V peak = group_peak<Isa, kGroup>(best.scale);
    for (int i = 0; i < kEffort.d_tried; ++i) {
      Scales r;
      r.d = to_f16_scale(peak * V::broadcast((1 + 0.03F * static_cast<float>(i)) / kLow));
      choose_scales(r, best.scale);
      for (int k = 0; k < kEffort.rounds; ++k) refit(r);
    }
    for (int i = 0; i < kEffort.d_beside; ++i) try_beside(i);
  }
  void store(std::size_t n_blocks, std::byte* out) const {
    const V factor = inverse_or_0(best_.d * best_.s);
    store_super_blocks<Isa, Block, N>(
        [&](std::size_t i) { return Grid::code(block_.x(i) * factor); }, best_.d, best_.d,
        best_.s - V::broadcast(kLow), V::broadcast(0), n_blocks, out);
  }

 private:
  void try_scale(Scales& r, const V& s) const {
    const V integer = max(min(round(s), V::broadcast(kHigh)), V::broadcast(kLow));
    r.better_sub_blocks(integer, integer, search_.error(r.d * integer));
  }
  /// Of the integers that put the peak where the efforts' stretches say, and the one nearest to the
  /// fit's.
  void choose_scales(Scales& r, const V& fitted) {
    const V inverse_d = inverse_or_0(r.d), ratio = search_.peak() * inverse_d;
    try_scale(r, fitted * inverse_d);
    for (int i = 0; i < kEffort.scales.count; ++i) {
      const float stretch = 1 / kEffort.scales.at(i);
      try_scale(r, ratio * V::broadcast(stretch / Grid::kBottom));
      try_scale(r, ratio * V::broadcast(stretch / Grid::kTop));
    }
    best_.template better_super_blocks<kGroup>(r);
  }
  /// d of least squares under the codes, then each s or one beside it.
  void refit(Scales& r) {
    V xq, qq;
    search_.sums(inverse_or_0(r.d * r.s), xq, qq);
    const V d = group_sum<Isa, kGroup>(xq * r.s) / group_sum<Isa, kGroup>(qq * r.s * r.s);
    Scales next;
    next.d = to_f16_scale(select_less(abs(d), V::broadcast(0x1p100F), d, r.d));  // all 0: stays
    for (const float beside : {0.0F, -1.0F, 1.0F}) try_scale(next, r.s + V::broadcast(beside));
    best_.template better_super_blocks<kGroup>(next);
    r = next;
  }

  /// The best d moved by up to 4 %, with each s or one beside it.
  void try_beside(int i) {
    constexpr float kFarthest = 0.04F;
    const float part = (2 * static_cast<float>(i) + 1) / static_cast<float>(kEffort.d_beside) - 1;
    Scales r;
    r.d = to_f16_scale(best_.d * V::broadcast(1 + kFarthest * part));
    const V s = best_.s * V::broadcast(1 / (1 + kFarthest * part));
    for (const float beside : {0.0F, -1.0F, 1.0F}) try_scale(r, s + V::broadcast(beside));
    best_.template better_super_blocks<kGroup>(r);
  }

  BlockLanes<Isa, N, weighted> block_;
  SymmetricSearch<Isa, Grid, N, weighted> search_;
  Scales best_;
};

/// EncodeFn of a type with s_bits of s for N values of a Grid.
template <class Isa, class Block, class Grid, std::size_t N, int s_bits>
void encode_symmetric_super(const float* x, const float* importance, std::size_t n,
                            std::byte* blocks) {
  using F = void (*)(const float*, const float*, std::size_t, std::byte*);
  const F plain = [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
    SymmetricSuper<Isa, Block, Grid, N, s_bits, false>(some, w, n_blocks).store(n_blocks, out);
  };
  const F weighted = [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
    SymmetricSuper<Isa, Block, Grid, N, s_bits, true>(some, w, n_blocks).store(n_blocks, out);
  };
  each_super_batch<Block, N>(x, importance, n, blocks, plain, weighted);
}

template <class Isa>
struct Encoder<Isa, DType::Q3_K> {
  static constexpr EncodeFn run =
      encode_symmetric_super<Isa, BlockQ3_K, IntegerGrid<Isa, -4, 3>, 16, 6>;
};
template <class Isa>
struct Encoder<Isa, DType::Q6_K> {
  static constexpr EncodeFn run =
      encode_symmetric_super<Isa, BlockQ6_K, IntegerGrid<Isa, -32, 31>, 16, 8>;
};
template <class Isa>
struct Encoder<Isa, DType::IQ4_XS> {
  static constexpr EncodeFn run = encode_symmetric_super<Isa, BlockIQ4_XS, Iq4Grid<Isa>, 32, 6>;
};

}  // namespace cria
