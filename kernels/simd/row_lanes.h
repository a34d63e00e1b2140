// The vocabulary of integer kernels: a vector of 16-byte lanes, one lane per row of the weight
// matrix (NEON: 1 row, AVX2: 2, AVX-512: 4). Type code is written once and never crosses a lane.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/simd/isa.h"
#include "kernels/simd/namespace.h"

// A kernel is fast when type code and vocabulary melt into one loop. Sanitizers and debuggers want
// the functions: inlining everything under ASan takes the compiler minutes and gigabytes.
#if defined(__has_feature)
#define CRIA_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CRIA_SANITIZED 1
#else
#define CRIA_SANITIZED 0
#endif
#if defined(__OPTIMIZE__) && !CRIA_SANITIZED
#define CRIA_INLINE __attribute__((always_inline))
#define CRIA_FLATTEN __attribute__((flatten))
#else
#define CRIA_INLINE
#define CRIA_FLATTEN
#endif

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Rows that are walked together; 8 rows are kPacks vectors, and lane
/// l of vector k belongs to row k + l*kPacks.
inline constexpr std::size_t kRowGroup = 8;

/// Calls f(0), f(1), … f(N - 1) with compile-time numbers. An f that takes an int is compiled once.
/// One that takes auto is compiled N times, and may use the number where only a constant will do.
template <int N, class F>
CRIA_INLINE inline void unroll(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) CRIA_INLINE {
    (f(std::integral_constant<int, I>{}), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

/// Sixteen bytes for every lane: table of a lookup, mask, factors.
template <class T>
struct alignas(16) LaneConstant {
  T at[16 / sizeof(T)];
};

/// Bytes first and first + 1 of a lane, eight times each; and the bit that each of eight then looks
/// at.
template <int first>
inline constexpr LaneConstant<std::uint8_t> kSpread = {
    {first, first, first, first, first, first, first, first, first + 1, first + 1, first + 1,
     first + 1, first + 1, first + 1, first + 1, first + 1}};
inline constexpr LaneConstant<std::uint8_t> kBitOfByte = {
    {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128}};

/// Keeps an array in memory, to be read piece by piece after a vector was stored there. Left to
/// itself, GCC takes the pieces out of the vector by shuffles.
template <class T>
CRIA_INLINE inline void keep_in_memory(T& array) {
  asm("" : "+m"(array));
}

/// Fixes a register's value at this place of the program. Left to itself, GCC reorders sums of many
/// products so that it must spill them.
template <class T>
CRIA_INLINE inline void pin(T& value) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(value));
#else
  asm volatile("" : "+w"(value));
#endif
}

/// Lanes of an instruction set. Specialised in simd/avx2.h, simd/avx512.h, simd/neon.h (and derived
/// from these in simd/avx512_parts.h and some headers of gemm/). Static members, on 8-bit elements
/// unless a number tells otherwise; `rows` points at the row pointers of a group, offset by the
/// vector's number:
/// - kLanes, kPacks: lanes of a vector, vectors of a group
/// - kBias: zero point of signed weights for the *_full() products: 128 or 0
/// - Vec, Float8: a vector of lanes; 8 floats, one per row of a group
/// - load(rows, offset): 16 bytes of each row
/// - same(p), splat8, splat16: 16 bytes in every lane; one element everywhere
/// - take<N>(v, mask): (v >> N) & mask; N < 0 shifts left
/// - lookup(table, index): table[index & 15] inside a lane, 0 if the top bit of index is set; index
///   is below 16 or at least 128
/// - dot<Max>(acc, w0, a0, w1, a1), dot<Max>(acc, w, a): acc + int32 sums of products, w in 0…Max
///   <= 127
/// - scale(s, j): the j-th of 8 int16 of each lane, for scaled_dot()
/// - scaled_dot<Max>(…, s), scaled_dot_full(…, s): acc + s * the sums
/// - madd16(acc, a, b): acc + sums of two products of int16
/// - sum_rows(packs): 8 int32 sums, one per row, of kPacks vectors of int32
/// - load_u8<Bytes, At>(…): 8 int32, one per row: byte At of its block of Bytes bytes
/// - load_u32(…), byte<N>(v): 8 int32, one per row: four of its bytes; byte N of each
/// - load_f32(…): 8 floats, one per row
/// - half_of_e8m0(e): 8 floats 2^(e - 128), subnormal for 0 and 1
/// - half_of_ue4m3(e): 8 floats, see kHalfOfUe4m3
/// - kPermutes: true if look_up() finds codebook entries by permutations; else they are loaded, by
///   Indices and entries()
/// - kNegates: true if negative() and negate() apply the signs of codebooks to activations instead
///   of weights
/// - kNarrow: optional: max sum in int16 for products() and sum_narrow_rows()
///
/// Operations for unpacking are described in simd/avx2.h.
template <class Isa>
struct RowLanes;

template <class V>
concept IsRowLanes = requires(typename V::Vec v, typename V::RowPtr rows) {
  typename V::Float8;
  { V::kLanes* V::kPacks } -> std::convertible_to<std::size_t>;
  { V::kBias } -> std::convertible_to<int>;
  { V::load(rows, std::size_t{}) } -> std::same_as<typename V::Vec>;
  { V::madd16(v, v, v) } -> std::same_as<typename V::Vec>;
  { V::zero_float() } -> std::same_as<typename V::Float8>;
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
