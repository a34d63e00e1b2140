// Softmax in double over rows of logits: what perplexities and divergences are made of. Eight lanes
// of multiplications and additions (no FMA: the same bits whatever the instruction set), then a
// fixed tree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

using F32x8 [[gnu::vector_size(32)]] = float;
using F64x8 [[gnu::vector_size(64)]] = double;
using I64x8 [[gnu::vector_size(64)]] = std::int64_t;
inline constexpr std::size_t kDoubleLanes = 8;

/// x = e^x to about one unit in the last place, for x of -700 (and all below it) to 700.
///
/// x = n*ln2 + r with |r| <= ln2/2, ln2 in two pieces; e^r by its Taylor series to r^12/12!, which
/// leaves 1.7e-16; 2^n added to the exponent. By reference: vectors have no calling convention of
/// their own.
template <class Isa>
[[gnu::always_inline]] inline void exp_in_place(F64x8& x) {
  constexpr double kMagic = 0x1.8p52;  // the sum's last bits are the rounded integer
  constexpr double kInverseFactorials[] = {1.0 / 479001600,
                                           1.0 / 39916800,
                                           1.0 / 3628800,
                                           1.0 / 362880,
                                           1.0 / 40320,
                                           1.0 / 5040,
                                           1.0 / 720,
                                           1.0 / 120,
                                           1.0 / 24,
                                           1.0 / 6,
                                           0.5,
                                           1,
                                           1};
  const F64x8 lowest = F64x8{} - 700;
  x = x < lowest ? lowest : x;
  const F64x8 n_magic = x * 0x1.71547652b82fep0 + kMagic;  // log2(e)
  const F64x8 n = n_magic - kMagic;
  const F64x8 r =
      (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;  // the first product is exact
  F64x8 sum = F64x8{};
  for (const double c : kInverseFactorials) sum = sum * r + c;
  x = __builtin_bit_cast(
      F64x8, __builtin_bit_cast(I64x8, sum) + (__builtin_bit_cast(I64x8, n_magic) << 52));
}

/// The next lanes <= 8 of a row, those after them as low as floats go: they weigh nothing.
[[gnu::always_inline]] inline void load_logits(const float* p, std::size_t lanes, F64x8& out) {
  constexpr float kLowest = -3.402823466e38F;
  F32x8 v = F32x8{} + kLowest;
  __builtin_memcpy(&v, p, lanes * sizeof(float));
  out = __builtin_convertvector(v, F64x8);
}

/// l[i] += l[i+4], then l[i+2], l[i+1].
[[gnu::always_inline]] inline double tree_sum(const F64x8& v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

template <class Isa>
double log_sum_exp(const float* x, std::size_t n) {
  F32x8 largest = F32x8{} + x[0];
  std::size_t i = 0;
  for (; i + kDoubleLanes <= n; i += kDoubleLanes) {
    F32x8 v;
    __builtin_memcpy(&v, x + i, sizeof v);
    largest = v > largest ? v : largest;
  }
  float top = largest[0];
  for (std::size_t lane = 1; lane < kDoubleLanes; ++lane)
    top = largest[lane] > top ? largest[lane] : top;
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;

  const double shift = top;
  F64x8 total = F64x8{};
  const auto add = [&](const float* p, std::size_t lanes) __attribute__((always_inline)) {
    F64x8 v;
    load_logits(p, lanes, v);
    v -= shift;
    exp_in_place<Isa>(v);
    total += v;
  };
  for (i = 0; i + kDoubleLanes <= n; i += kDoubleLanes) add(x + i, kDoubleLanes);
  if (i < n) add(x + i, n - i);
  return shift + __builtin_log(tree_sum(total));
}

template <class Isa>
double mean_difference(const float* p, double log_sum, const float* q, std::size_t n) {
  F64x8 total = F64x8{};
  const auto add = [&](std::size_t at, std::size_t lanes) __attribute__((always_inline)) {
    F64x8 weight, a, b;
    load_logits(p + at, lanes, a);
    load_logits(q + at, lanes, b);
    weight = a - log_sum;
    exp_in_place<Isa>(weight);
    total += weight * (a - b);
  };
  std::size_t i = 0;
  for (; i + kDoubleLanes <= n; i += kDoubleLanes) add(i, kDoubleLanes);
  if (i < n) add(i, n - i);
  return tree_sum(total);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
