// Products of F32 and F16 weights with float activations: 16 lanes along the row, one tree at its
// end, for one token and for many alike (numerics: kernels/README.md). Which of the three ways is
// taken is a matter of speed only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/matmul/float_blocks.h"
#include "kernels/matmul/float_panel.h"
#include "kernels/matmul/float_rows.h"
#include "kernels/matmul/float_tiles.h"
#include "kernels/simd/f32x16.h"

namespace cria {

/// Of any instruction set.
constexpr std::size_t float_matmul_scratch_bytes(std::size_t cols) {
  return std::max(
      {float_panel_scratch_bytes(cols), float_tiles_scratch_bytes(cols), kFloatRowsScratchBytes});
}

/// Whether an instruction set has tiles.
template <class Isa>
inline constexpr bool kHasFloatTiles = requires(typename FloatOps<Isa>::Batch* square) {
  FloatOps<Isa>::transpose(square);
};

/// How many tokens meet the rows straight from the file, at most.
template <class Block>
std::size_t most_direct(Stored type) {
  return (kSmallFirstCache ? small_direct<Block>(type) : Block::direct(type)).most_tokens;
}

/// MatMulFn. Isa: of the float lanes (bf16.h: of pairs of bfloat16), which hold what the file
/// stores as `type`.
template <class Isa, Stored type>
void float_products(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                    std::byte* scratch) {
  using Block = FloatBlock<Isa>;
  const std::size_t n = job.x->n_tokens;
  if constexpr (kHasFloatTiles<Isa>) {
    if (n >= Block::tiles_from(type) && job.laid_out != nullptr)
      return FloatTiles<Isa, type>(job, scratch).run(row_begin, row_end);
  }
  if (n <= most_direct<Block>(type))
    return FloatRows<Isa, type>(job, scratch).run(row_begin, row_end);
  FloatPanel<Isa, type>(job, scratch).run(row_begin, row_end);
}

/// What products of many tokens want.
template <class Isa, Stored type>
LayOut float_layout() {
  if constexpr (kHasFloatTiles<Isa>) {
    return {FloatTokens<Isa>::run, FloatTokens<Isa>::bytes, FloatBlock<Isa>::tiles_from(type),
            SIZE_MAX};
  }
  return {};
}

/// The kernel of a float type; run is null for any other.
template <class Isa>
MatMulKernel float_matmul_kernel(DType type) {
  if (type == DType::F32)
    return {ActType::F32, float_products<Isa, Stored::F32>, float_layout<Isa, Stored::F32>()};
  if (type == DType::F16)
    return {ActType::F32, float_products<Isa, Stored::F16>, float_layout<Isa, Stored::F16>()};
  return {};
}

}  // namespace cria
