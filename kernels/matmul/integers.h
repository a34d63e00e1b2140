// The matrix products of the integer types: a GEMV for few tokens, a GEMM for more, each compiled in a unit of
// its own (isa/NAME_gemv.cpp, isa/NAME_gemm.cpp).
#pragma once

#include "kernels/formats/formats.h"
#include "kernels/kernels.h"

namespace cria {

template <class Isa>
MatMulFn gemv_kernel(DType type);  // gemv/gemv.h
template <class Isa>
MatMulFn gemm_kernel(DType type);  // gemm/gemm.h

/// From more tokens than this on, packing a panel pays.
inline constexpr std::size_t kGemvTokens = 8;

template <class Isa, DType type>
void int_product(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  const MatMulFn run = job.x->n_tokens > kGemvTokens ? gemm_kernel<Isa>(type) : gemv_kernel<Isa>(type);
  run(job, row_begin, row_end, scratch);
}

/// The kernel of a type; run is null for types that are not integers in blocks.
template <class Isa>
MatMulKernel int_matmul(DType type) {
  return with_dtype(type, [](auto t) -> MatMulKernel {
    constexpr DotClass kClass = Format<t>::kClass;
    if constexpr (is_integer(kClass)) return {activations_of(kClass), int_product<Isa, t>};
    return {};
  });
}

}  // namespace cria
