// Products of F32, F16 and BF16 weights with float activations: 16 lanes along the row, one tree at
// its end, for any number of tokens (numerics: kernels/README.md). The choice between the three
// kernels affects only the speed.
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
#include "kernels/simd/float_mode.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Enough for every instruction set.
constexpr std::size_t float_matmul_scratch_bytes(std::size_t cols) {
  return std::max(
      {float_panel_scratch_bytes(cols), float_tiles_scratch_bytes(cols), kFloatRowsScratchBytes});
}

/// True if an instruction set has tiles.
template <class Isa>
inline constexpr bool kHasFloatTiles = requires(typename FloatOps<Isa>::Batch* square) {
  FloatOps<Isa>::transpose(square);
};

/// Max tokens that read rows straight from the file.
template <class Block>
std::size_t most_direct(Stored type) {
  return (kSmallL1Cache ? small_direct<Block>(type) : Block::direct(type)).most_tokens;
}

/// MatMulFn. Isa: of the float lanes (or Bf16Pairs: of pairs of bfloat16), which hold what the file
/// stores as `type`.
template <class Isa, Stored type>
void float_products(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                    std::byte* scratch) {
  using Block = FloatBlock<Isa>;
  const std::size_t n = job.x->n_tokens;
  if constexpr (kHasFloatTiles<Isa>) {
    if (n >= Block::tiles_from(type) && job.packed != nullptr)
      return FloatTiles<Isa, type>(job, scratch).run(row_begin, row_end);
  }
  if (n <= most_direct<Block>(type))
    return FloatRows<Isa, type>(job, scratch).run(row_begin, row_end);
  FloatPanel<Isa, type>(job, scratch).run(row_begin, row_end);
}

/// The packing of a float product.
template <class Isa, Stored type>
PackActivations float_packing() {
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
    return {ActType::F32, float_products<Isa, Stored::F32>, float_packing<Isa, Stored::F32>()};
  if (type == DType::F16)
    return {ActType::F32, float_products<Isa, Stored::F16>, float_packing<Isa, Stored::F16>()};
  return {};
}

// Products of BF16 weights with activations rounded to bfloat16 (numerics: kernels/README.md): the
// float kernel, run over pairs. Where it sees one float column, weights and tokens hold two
// bfloat16, and its fused multiply-add is the dot product of both pairs: one instruction on
// processors that have it.

/// An instruction set whose float lanes hold pairs of bfloat16, the first in the low half. Panels
/// hold the halves as floats, in the order in which they are multiplied.
template <class Isa>
struct Bf16Pairs {};

template <class Isa>
struct FloatOps<Bf16Pairs<Isa>> : FloatOps<Isa> {
  using Batch = typename FloatOps<Isa>::Batch;
  using Halves = FloatOps<Isa>;
  /// sum + the second halves' product, + the first halves'.
  [[gnu::always_inline]] static Batch fma(Batch w, Batch x, Batch sum) {
    using Ops = FloatOps<Isa>;
    return Ops::fma(Ops::low_bf16(w), Ops::low_bf16(x),
                    Ops::fma(Ops::high_bf16(w), Ops::high_bf16(x), sum));
  }
};
#if defined(__AVX512BF16__)
template <>
struct FloatOps<Avx512Bf16> : FloatOps<Avx512> {
  [[gnu::always_inline]] static Batch fma(Batch w, Batch x, Batch sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)w.data, (__m512bh)x.data);
  }
};
#endif
template <class Isa>
inline constexpr bool kPairs<Bf16Pairs<Isa>> = true;
template <>
inline constexpr bool kPairs<Avx512Bf16> = true;
template <class Isa>
struct FloatBlock<Bf16Pairs<Isa>> : FloatBlock<Isa> {};
template <>
inline constexpr std::size_t kShortTokens<Avx512Bf16> = 4;
template <>
inline constexpr bool kNearSmall<Avx512Bf16> = true;
template <>
struct FloatBlock<Avx512Bf16> : FloatBlock<Avx512> {
  static constexpr DirectBlock direct(Stored /*type*/) { return {128, 8, 3, 4096}; }
  static constexpr DirectBlock direct_small(Stored /*type*/) {
    return FloatBlock<Avx512>::direct_small(Stored::F16);
  }
  static constexpr TokensAtOnce at_once(Stored /*type*/) { return {7, 8}; }
  static std::size_t tiles_from(Stored /*type*/) {
    return FloatBlock<Avx512>::tiles_from(Stored::F16);
  }
};

/// MatMulFn of BF16. Pairs: what multiplies them, Bf16Pairs<Isa> or Avx512Bf16.
template <class Pairs>
void bf16_matmul(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                 std::byte* scratch) {
  if (job.cols % 2 != 0) {  // rows that no model has: their last value has no pair
    scalar_matmul(DType::BF16).run(job, row_begin, row_end, scratch);
    return;
  }
  Activations pairs;
  pairs.type = ActType::F32;
  pairs.n_tokens = job.x->n_tokens;
  pairs.cols = job.cols / 2;
  pairs.f32 = reinterpret_cast<const float*>(job.x->q);
  pairs.f32_stride = job.x->q_stride() / sizeof(float);
  MatMulJob pair_job = job;
  pair_job.cols = pairs.cols;
  pair_job.x = &pairs;
  const SubnormalsAsZero mode;
  float_products<Pairs, Stored::F32>(pair_job, row_begin, row_end, scratch);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
