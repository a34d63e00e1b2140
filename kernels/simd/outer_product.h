// The inner loop of attention, for scores and for values: C[q][column] += Σ_i A[q][i]·B[i][column],
// i increasing, by FMA. Columns lie in lanes; a block of up to kMaxQueries rows of A shares every
// load of B.
#pragma once

#include <cstddef>

#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

inline constexpr std::size_t kMaxQueries = 6;

/// 16-column groups that Queries rows can keep in registers (a quarter of them left for operands).
template <class Isa, std::size_t Queries>
constexpr std::size_t groups_in_registers() {
  constexpr std::size_t registers =
      F32x16<Isa>::kParts == 2 ? 12 : 24;  // AVX2 has 16, the others 32
  constexpr std::size_t fit = registers / (Queries * F32x16<Isa>::kParts);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

/// Initial sums.
alignas(64) inline constexpr float kZeros[4 * kFloatLanes] = {};

/// Steps of the inner loop from one PrefetchInTurn::some() to the next.
inline constexpr std::size_t kPrefetchSteps = 8;

/// Operands: B's rows lie b_stride bytes apart; C's rows c_stride floats apart.
struct OuterProduct {
  const float* const* a;  ///< one pointer per query, n values each
  std::size_t n;
  const std::byte* b;
  std::size_t b_stride;
  float* c;
  std::size_t c_stride;
  bool from_zero;                      ///< C is overwritten, as if it had been 0
  PrefetchInTurn* prefetch = nullptr;  ///< F16: never null
};

template <class Isa, Stored type, std::size_t Queries, std::size_t Groups>
void outer_product_block(const OuterProduct& job, std::size_t group) {
  using V = F32x16<Isa>;
  const std::size_t n = job.n, b_stride = job.b_stride, c_stride = job.c_stride;
  const std::byte* b = job.b + group * kFloatLanes * stored_bytes(type);
  float* const c = job.c + group * kFloatLanes;
  const float* const start = job.from_zero ? kZeros : c;
  const std::size_t start_stride = job.from_zero ? 0 : c_stride;
  const float* a[Queries];
  V acc[Queries][Groups];
  CRIA_UNROLL
  for (std::size_t q = 0; q < Queries; ++q) {
    a[q] = job.a[q];
    CRIA_UNROLL
    for (std::size_t g = 0; g < Groups; ++g)
      acc[q][g] = V::load(start + q * start_stride + g * kFloatLanes);
  }
  for (std::size_t i = 0; i < n; ++i, b += b_stride) {
    V row[Groups];
    if constexpr (type == Stored::F16) {
      if (i % kPrefetchSteps == 0) job.prefetch->some();
    }
    CRIA_UNROLL
    for (std::size_t g = 0; g < Groups; ++g)
      row[g] = V::template load_as<type>(b + g * kFloatLanes * stored_bytes(type));
    CRIA_UNROLL
    for (std::size_t q = 0; q < Queries; ++q) {
      const V factor = V::broadcast(a[q][i]);
      CRIA_UNROLL
      for (std::size_t g = 0; g < Groups; ++g) acc[q][g] = fma(factor, row[g], acc[q][g]);
    }
  }
  CRIA_UNROLL
  for (std::size_t q = 0; q < Queries; ++q) {
    CRIA_UNROLL
    for (std::size_t g = 0; g < Groups; ++g) acc[q][g].store(c + q * c_stride + g * kFloatLanes);
  }
}

/// Columns [16*begin, 16*end) for Queries rows.
template <class Isa, Stored type, std::size_t Queries>
void outer_product(const OuterProduct& job, std::size_t begin, std::size_t end) {
  constexpr std::size_t wide = groups_in_registers<Isa, Queries>();
  std::size_t g = begin;
  for (; g + wide <= end; g += wide) outer_product_block<Isa, type, Queries, wide>(job, g);
  for (; g < end; ++g) outer_product_block<Isa, type, Queries, 1>(job, g);
}

/// The same for n_queries = 1 … kMaxQueries rows.
template <class Isa, Stored type, std::size_t Queries = kMaxQueries>
void outer_product(std::size_t n_queries, const OuterProduct& job, std::size_t begin,
                   std::size_t end) {
  if (n_queries == Queries) return outer_product<Isa, type, Queries>(job, begin, end);
  if constexpr (Queries > 1) outer_product<Isa, type, Queries - 1>(n_queries, job, begin, end);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
