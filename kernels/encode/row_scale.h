// IQ4_KS and IQ5_KS: rows of d·s·value, an odd s and one of two tables of values per 32. The whole
// row shares d, so it is walked twice: for the scales that its sub-blocks want, then for their
// integers.
#pragma once

#include "kernels/encode/lanes.h"
#include "kernels/encode/pack.h"
#include "kernels/encode/search.h"
#include "kernels/isa/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

template <class Isa, class Block, bool weighted>
class RowScaleLanes {
  using V = F32x16<Isa>;
  using Plain = TableGrid<Isa, Block::kValues>;
  using Shifted = TableGrid<Isa, Block::kValues, Block::kShift>;
  template <class Grid>
  using Search = SymmetricSearch<Isa, Grid, 32, weighted>;
  static constexpr std::size_t kSubBlocks = 8;  // per block

 public:
  static constexpr std::size_t kBlocks = kFloatLanes / kSubBlocks;  ///< at once
  static constexpr int kMost = 127;                                 ///< the largest s

  /// Up to two blocks: their sub-blocks in lanes.
  RowScaleLanes(const float* x, const float* importance, std::size_t n_blocks)
      : block_(x, importance, n_blocks * kSubBlocks, kSubBlocks),
        plain_(block_),
        shifted_(block_) {}

  /// Scales of either table. The return value is the largest that the sub-blocks want, with its
  /// sign dropped.
  float fit(V (&scales)[2]) const {
    ScaleFit<Isa> fits[2] = {best_of(plain_), best_of(shifted_)};
    for (int i = 0; i < 2; ++i) scales[i] = fits[i].scale;
    fits[0].better_of(fits[1]);
    alignas(64) float lanes[kFloatLanes];
    abs(fits[0].scale).store(lanes);
    float most = 0;
    for (const float scale : lanes) most = scale > most ? scale : most;
    return most;
  }
  /// Chooses s and the table of every sub-block, given d.
  void choose(float d, const V (&scales)[2]) {
    d_ = V::broadcast(d);
    error_ = V::broadcast(__builtin_inff());
    s_ = shift_ = V::broadcast(0);
    for (const float beside : {0.0F, -2.0F, 2.0F}) {
      try_scale(plain_, scales[0], beside, 0);
      try_scale(shifted_, scales[1], beside, 1);
    }
  }
  void store(std::size_t n_blocks, std::byte* out) const {
    const V factor = inverse_or_0(d_ * s_), half = V::broadcast(0.5F);
    const auto code = [&](std::size_t i) {
      const V x = block_.x(i) * factor;
      return select_less(half, shift_, Shifted::code(x), Plain::code(x));
    };
    store_super_blocks<Isa, Block, 32>(code, d_, d_, s_ + V::broadcast(kMost), shift_, n_blocks,
                                       out);
  }

 private:
  template <class S>
  static ScaleFit<Isa> best_of(const S& search) {
    constexpr Starts kStarts = {0.85F, 1.2F, 6};
    ScaleFit<Isa> best = search.best_of(kStarts);
    for (int again = 0; again < 2; ++again) best.better_of(search.fit(inverse_or_0(best.scale)));
    return best;
  }
  /// Tries the odd number nearest to the wanted scale, or a neighbour.
  template <class S>
  void try_scale(const S& search, const V& wanted, float beside, float shifted) {
    const V one = V::broadcast(1), two = V::broadcast(2);
    const V pairs = round((wanted * inverse_or_0(d_) - one) * V::broadcast(0.5F));
    const V s = limited<Isa>(fma(pairs, two, V::broadcast(1 + beside)), kMost);
    const V error = search.error(d_ * s);
    s_ = select_less(error, error_, s, s_);
    shift_ = select_less(error, error_, V::broadcast(shifted), shift_);
    error_ = select_less(error, error_, error, error_);
  }

  BlockLanes<Isa, 32, weighted> block_;
  Search<Plain> plain_;
  Search<Shifted> shifted_;
  V d_, s_, shift_, error_;
};

template <class Lanes, class V, class Block>
void encode_row_scale(const float* x, const float* importance, std::size_t n, std::byte* row) {
  std::byte* const blocks = row + sizeof(float);
  // Two vectors for every two blocks, which are longer: they wait where the blocks will be.
  constexpr std::size_t kFloats = 2 * kFloatLanes / Lanes::kBlocks;
  static_assert(kFloats * sizeof(float) <= sizeof(Block));
  const auto each = [&](auto f) {
    each_batch<Block, 256, Lanes::kBlocks>(x, importance, n, blocks, f);
  };
  float most = 0;
  each([&](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
    V scales[2];
    const float scale = Lanes(some, w, n_blocks).fit(scales);
    most = scale > most ? scale : most;
    alignas(64) float lanes[2][kFloatLanes];
    for (int i = 0; i < 2; ++i) scales[i].store(lanes[i]);
    for (std::size_t b = 0; b < n_blocks; ++b)
      for (std::size_t i = 0; i < 2; ++i)
        __builtin_memcpy(out + b * sizeof(Block) + i * kFloats / 2 * sizeof(float),
                         lanes[i] + b * kFloats / 2, kFloats / 2 * sizeof(float));
  });
  const float d = most / Lanes::kMost;
  __builtin_memcpy(row, &d, sizeof d);
  each([&](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
    alignas(64) float lanes[2][kFloatLanes] = {};
    for (std::size_t b = 0; b < n_blocks; ++b)
      for (std::size_t i = 0; i < 2; ++i)
        __builtin_memcpy(lanes[i] + b * kFloats / 2,
                         out + b * sizeof(Block) + i * kFloats / 2 * sizeof(float),
                         kFloats / 2 * sizeof(float));
    Lanes chosen(some, w, n_blocks);
    chosen.choose(d, {V::load(lanes[0]), V::load(lanes[1])});
    chosen.store(n_blocks, out);
  });
}

template <class Isa, class Block>
inline constexpr EncodeFn kRowScale =
    [](const float* x, const float* importance, std::size_t n, std::byte* row) {
      using V = F32x16<Isa>;
      (importance == nullptr
           ? encode_row_scale<RowScaleLanes<Isa, Block, false>, V, Block>
           : encode_row_scale<RowScaleLanes<Isa, Block, true>, V, Block>)(x, importance, n, row);
    };

template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ4_KS> = kRowScale<Isa, BlockIQ4_KS>;
template <class Isa>
inline constexpr EncodeFn kEncoder<Isa, DType::IQ5_KS> = kRowScale<Isa, BlockIQ5_KS>;

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
