// What products of one token on AVX-512 with a row a register share: how registers are loaded and
// added up, how they walk along the rows, and what takes the products that have no such kernel.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstring>

#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx512_parts.h"

namespace cria {

template <class T>
CRIA_INLINE inline T load_bits(const std::byte* p) {
  T bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

/// The bytes of a register, as a function of their place.
template <class F>
constexpr std::array<std::uint8_t, 64> bytes_by(F f) {
  std::array<std::uint8_t, 64> bytes{};
  for (std::size_t i = 0; i < 64; ++i) bytes[i] = static_cast<std::uint8_t>(f(i));
  return bytes;
}
CRIA_INLINE inline __m512i load_bytes(const std::array<std::uint8_t, 64>& bytes) {
  return _mm512_load_si512(bytes.data());
}
/// 32 bytes, twice.
CRIA_INLINE inline __m512i load_twice(const void* p) {
  return _mm512_broadcast_i64x4(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
/// The first (0) or the second (1) sixteen of each 32 of 128 activations.
template <int second>
CRIA_INLINE inline __m512i every_other_sixteen(const std::int8_t* p) {
  return _mm512_shuffle_i32x4(_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64),
                              second ? 0xDD : 0x88);
}

/// In every lane: a0 + a2, b0 + b2, a1 + a3, b1 + b3.
CRIA_INLINE inline __m512i add_neighbours(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
/// Of the results of add_neighbours(a, b) and (c, d): in every lane the sums of a's, b's, c's and
/// d's.
CRIA_INLINE inline __m512i add_pairs(__m512i ab, __m512i cd) {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}
/// Of four pairs of rows, added as neighbours: the sums of the eight rows.
CRIA_INLINE inline __m256i sum_rows(const __m512i (&pairs)[4]) {
  const __m512i a = add_pairs(pairs[0], pairs[1]), b = add_pairs(pairs[2], pairs[3]);
  const __m512i halves =
      _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
  const __m512i sums = _mm512_add_epi32(halves, _mm512_shuffle_i32x4(halves, halves, 0xB1));
  return _mm512_castsi512_si256(
      _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 4, 5, 0, 0, 0, 0), sums));
}
/// The sums of the halves of four registers.
CRIA_INLINE inline __m256i sum_halves(const __m512i (&v)[4]) {
  const __m512i lanes = add_pairs(add_neighbours(v[0], v[1]), add_neighbours(v[2], v[3]));
  const __m512i sums = _mm512_add_epi32(lanes, _mm512_shuffle_i32x4(lanes, lanes, 0xB1));
  return _mm512_castsi512_si256(_mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0), sums));
}

/// A product of one token that goes from super-block to super-block, by Kernel::super_block().
template <class Kernel, DType type, Reading reading>
class SuperBlocks {
 public:
  using Lanes = RowLanes<Avx512>;
  static constexpr Reading kReading = reading;

  /// As Gemv::run() for one token.
  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead,
                  const Activations& x, std::size_t token, __m256 (&acc)[1]) {
    constexpr std::size_t kBytes = sizeof(typename Format<type>::Block);
    acc[0] = _mm256_setzero_ps();
    const std::size_t n = x.cols / 256;
    const std::int8_t* const q = x.q + token * x.q_stride();
    const std::int16_t* const sum = x.sum + token * x.sum_stride();
    const float* const d = x.d + token * n;
    for (std::size_t b = 0; b < n; ++b)
      Kernel::super_block(rows, kHeaderBytes<type> + b * kBytes, ahead + b * kRowGroup * kBytes,
                          q + 256 * b, sum + 16 * b, _mm256_set1_ps(d[b]), acc[0]);
  }
};

/// A product of one token that goes on by kStep blocks of 32 a row, by Kernel::step(), and in lanes
/// where fewer are left.
template <class Kernel, DType type, std::size_t kStep, Reading reading>
class BlockSteps {
 public:
  using Lanes = RowLanes<Avx512>;
  static constexpr Reading kReading = reading;

  /// As Gemv::run() for one token.
  static void run(const std::byte* const (&rows)[kRowGroup], const std::byte* ahead,
                  const Activations& x, std::size_t token, __m256 (&acc)[1]) {
    static_assert(kHeaderBytes<type> == 0);
    constexpr std::size_t kBytes = kStep * sizeof(typename Format<type>::Block);
    acc[0] = _mm256_setzero_ps();
    const std::size_t n_blocks = x.cols / 32, n_steps = n_blocks / kStep;
    const std::int8_t* const q = x.q + token * x.q_stride();
    const std::int16_t* const sum = x.sum + token * x.sum_stride();
    const float* const d = x.d + token * n_blocks;
    for (std::size_t i = 0; i < n_steps; ++i)
      Kernel::step(rows, i * kBytes, ahead + i * kRowGroup * kBytes, q + i * kStep * 32,
                   sum + i * kStep, d + i * kStep, acc[0]);
    Gemv<Avx512Parts<2>, type, 1, reading>::add_blocks(rows, ahead, x, token, n_steps * kStep,
                                                       n_blocks, acc);
  }
};

template <>
struct LanesOfSeveral<Avx512> {
  using Type = Avx512Parts<2>;
};

template <DType type>
struct OneToken<Avx512, type> {
  template <Reading reading>
  using Reads = Gemv<Avx512Parts<2>, type, 1, reading>;
  using Type = Reads<Reading::InOrder>;
};

}  // namespace cria
