// Decoders in lanes of vectors, which GEMV and GEMM share. Each is defined in the file of its
// family; iq.h and iq4.h include them all.
#pragma once

#include <concepts>
#include <cstddef>

#include "kernels/formats/dtype.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/row_lanes.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The decoder of a type. V: RowLanes of an instruction set; rows: pointers to a vector's rows;
/// offset: from the start of a row to the block; w: unsigned bytes, the weight plus kZero.
/// - kBytes: bytes per block
/// - kSuper: class Super256, else Blocks32
/// - kZero, kMax: zero point; the largest w (up to 127 unless kFull)
/// - kFull: w is a signed weight + V::kBias, for the *_full() dot products
/// - weights(rows, offset, f): calls f(j, w0, w1) for each 32 weights j: w0 the first 16, w1 the
///   second
/// - kMagnitude, magnitudes(): optional: weights() with magnitudes up to kMagnitude, and masks of
///   negative ones
/// - kEven: optional: all weights are even, so that halves of them with twice the scales fit in a
///   byte
/// - kPowersOfTwo: optional: every d is a power of two
/// - kBytewise: optional: weights() treats all loaded bytes equally, and moves them by join_low()
///   and join_high() only
/// - kFifthBits: optional: as kBytewise except for FifthBits (blocks32.h), which V may specialise
/// - d(rows, offset): Float8: the float scales of the 8 rows of the group; also offset_of() of
///   Blocks32 types with an offset, dmin() of Super256 types with mins
/// - d(rows, offset, d): instead, if every group of a block has its own scale: fills an array of
///   Float8
///
/// Super256 types also have
/// - kScales: int16 scales per block: 16, 8 or 0
/// - scales(rows, offset, s): fills kScales/8 vectors; also mins() of types that have them
template <class V, DType type>
struct LaneType;

template <class W>
concept IsLaneType = requires {
  { W::kBytes } -> std::convertible_to<std::size_t>;
  { W::kSuper&& W::kFull } -> std::convertible_to<bool>;
  { W::kZero + W::kMax + W::kScales } -> std::convertible_to<int>;
};

/// True if every float scale is a power of two.
template <class W>
inline constexpr bool kScalesByPowersOfTwo = requires {
  requires W::kPowersOfTwo;
};

/// True if weights() accepts vectors that hold some columns of many rows instead of sixteen of each
/// row.
template <class W>
inline constexpr bool kDecodesColumns = requires {
  W::kBytewise;
}
|| requires { W::kFifthBits; };

/// True if V has several registers, so that unrolling a whole block would overflow the µop cache.
template <class V>
inline constexpr bool kLongCode = requires {
  requires V::kLongCode;
};

/// f(i) for i = 0 … n - 1: unrolled, or in a loop.
template <bool in_loop, int n, class F>
CRIA_INLINE inline void each_part(F f) {
  if constexpr (in_loop) {
    int end = n;
    asm("" : "+r"(end));  // an unknown count is not unrolled
    for (int i = 0; i < end; ++i) f(i);
  } else {
    unroll<n>(f);
  }
}

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

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
