// Q4_1 and Q5_1: 32 weights d·q + m.
#pragma once

#include "kernels/encode/encoder.h"
#include "kernels/encode/pack.h"
#include "kernels/encode/search.h"

namespace cria {

template <class Isa, class Block, int top, bool weighted>
void encode_affine32(const float* x, const float* importance, std::size_t n_blocks,
                     std::byte* out) {
  using V = F32x16<Isa>;
  const BlockLanes<Isa, 32, weighted> block(x, importance, n_blocks);
  const AffineSearch<Isa, top, 32, weighted, false> search(block);
  const auto best =
      search.best_of(top == 15 ? Starts{-0.05F, 0.2F, 20} : Starts{-0.04F, 0.1F, 20}, 6);
  const V m = to_f16_and_back(best.offset);
  const V d = to_best_f16_scale(best.scale, [&](V scale) { return search.error(scale, m); }),
          factor = inverse_or_0(d);
  store_blocks32<Isa, Block>(
      [&](std::size_t i) { return IntegerGrid<Isa, 0, top>::code((block.x(i) - m) * factor); }, d,
      m, n_blocks, out);
}

/// EncodeFn of a type with codes 0…top.
template <class Isa, class Block, int top>
void encode_affine32(const float* x, const float* importance, std::size_t n, std::byte* blocks) {
  each_batch<Block, 32, kFloatLanes>(
      x, importance, n, blocks,
      [](const float* some, const float* w, std::size_t n_blocks, std::byte* out) {
        (w == nullptr ? encode_affine32<Isa, Block, top, false>
                      : encode_affine32<Isa, Block, top, true>)(some, w, n_blocks, out);
      });
}

template <class Isa>
struct Encoder<Isa, DType::Q4_1> {
  static constexpr EncodeFn run = encode_affine32<Isa, BlockQ4_1, 15>;
};
template <class Isa>
struct Encoder<Isa, DType::Q5_1> {
  static constexpr EncodeFn run = encode_affine32<Isa, BlockQ5_1, 31>;
};

}  // namespace cria
