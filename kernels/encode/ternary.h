// TQ1_0 and TQ2_0: 256 weights d·t, t of -1, 0, 1.
#pragma once

#include "kernels/encode/encoder.h"
#include "kernels/encode/super.h"

namespace cria {

/// One super-block, sixteen runs of sixteen values in lanes. Starts are parts of the largest
/// magnitude: the first is right where the weights are ternary already.
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

/// EncodeFn of TQ1_0 and TQ2_0.
template <class Isa, class Block>
void encode_ternary(const float* x, const float* importance, std::size_t n, std::byte* blocks) {
  using F = void (*)(const float*, const float*, std::size_t, std::byte*);
  each_super_batch<Block, 16, F>(x, importance, n, blocks, encode_ternary<Isa, Block, false>,
                                 encode_ternary<Isa, Block, true>);
}

template <class Isa>
struct Encoder<Isa, DType::TQ1_0> {
  static constexpr EncodeFn run = encode_ternary<Isa, BlockTQ1_0>;
};
template <class Isa>
struct Encoder<Isa, DType::TQ2_0> {
  static constexpr EncodeFn run = encode_ternary<Isa, BlockTQ2_0>;
};

}  // namespace cria
