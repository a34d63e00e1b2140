// How a type lies in the lanes of vectors: the decoders that GEMV and GEMM share. Each stands in
// the file of its family; lanes.h includes them all.
#pragma once

#include <cstddef>

#include "kernels/formats/dtype.h"
#include "kernels/simd/row_lanes.h"

namespace cria {

/// The decoder of a type. V: RowLanes of an instruction set; rows: the pointers of a vector's rows;
/// w: unsigned bytes, the weight plus kZero.
///
///   kBytes                  of a block
///   kSuper                  class Super256; else Blocks32
///   kZero, kMax             what is added to every weight; the largest w (at most 127 unless
///   kFull) kFull                   w is a signed weight + V::kBias, for the dot products of that
///   name weights(rows, offset, f)   calls f(j, w0, w1) for each 32 weights j: w0 the first 16, w1
///   the others kMagnitude, magnitudes()   optional: weights() with magnitudes up to kMagnitude,
///   and masks where they are
///                           negative
///   kEven                   optional: all weights are even, so that halves of them beside twice
///   the scales fit in a byte kBytewise               optional: weights() does the same to every
///   byte that it loads, and moves bytes by
///                           join_low() and join_high() alone
///   kFifthBits              optional: weights() does that but for FifthBits (blocks32.h), which V
///   may have of its own d(rows, offset)         Float8: the float scales of the 8 rows of the
///   group; likewise offset_of() of
///                           Blocks32 types with an offset, dmin() of Super256 types with mins
///   d(rows, offset, d)      instead where every group of a block has its own: fills an array of
///   Float8
/// (rows: where the rows begin; offset: from there to the block)
/// and of Super256 types:
///   kScales                 int16 scales per block: 16, 8 or 0
///   scales(rows, offset, s) fills kScales/8 vectors; likewise mins() of types that have them
template <class V, DType type>
struct LaneType;

/// Whether weights() may be given vectors that hold some columns of many rows instead of sixteen of
/// each.
template <class W>
inline constexpr bool kDecodesColumns = requires {
  W::kBytewise;
}
|| requires { W::kFifthBits; };

/// The float scales of a block's groups.
template <class V, class W, std::size_t n>
CRIA_INLINE inline void block_scales(typename V::RowPtr rows, std::size_t offset,
                                     typename V::Float8 (&d)[n]) {
  if constexpr (requires { W::d(rows, offset, d); }) {
    W::d(rows, offset, d);
  } else {
    d[0] = W::d(rows, offset);
    for (std::size_t i = 1; i < n; ++i) d[i] = d[0];
  }
}

}  // namespace cria
