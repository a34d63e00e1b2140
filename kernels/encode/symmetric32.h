// Q4_0, Q5_0 and IQ4_NL: 32 weights d·value, the values of a grid that reaches further on one side
// of 0.
#pragma once

#include "kernels/encode/encoder.h"
#include "kernels/encode/pack.h"
#include "kernels/encode/search.h"

namespace cria {

/// How far the grid is stretched over the peak: from a little less to more than it takes, 1 among
/// them.
template <class Block>
inline constexpr Starts kStarts32 = {0.9F, 1.25F, 8};
template <>
inline constexpr Starts kStarts32<BlockQ5_0> = {0.94F, 1.1F, 9};

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

/// EncodeFn of a type whose values are a Grid.
template <class Isa, class Block, class Grid>
void encode_symmetric32(const float* x, const float* importance, std::size_t n, std::byte* blocks) {
  each_batch<Block, 32, kFloatLanes>(
      x, importance, n, blocks,
      [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
        (w == nullptr ? encode_symmetric32<Isa, Block, Grid, false>
                      : encode_symmetric32<Isa, Block, Grid, true>)(some, w, n_blocks, out);
      });
}

template <class Isa>
struct Encoder<Isa, DType::Q4_0> {
  static constexpr EncodeFn run = encode_symmetric32<Isa, BlockQ4_0, IntegerGrid<Isa, -8, 7>>;
};
template <class Isa>
struct Encoder<Isa, DType::Q5_0> {
  static constexpr EncodeFn run = encode_symmetric32<Isa, BlockQ5_0, IntegerGrid<Isa, -16, 15>>;
};
template <class Isa>
struct Encoder<Isa, DType::IQ4_NL> {
  static constexpr EncodeFn run = encode_symmetric32<Isa, BlockIQ4_NL, Iq4Grid<Isa>>;
};

}  // namespace cria
