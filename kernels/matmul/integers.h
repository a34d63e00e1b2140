// The matrix products of the integer types: a GEMV for one token or few, a GEMM for more, and where there is one a
// kernel for those in between; each compiled in a unit of its own (isa/NAME_gemv.cpp, NAME_gemm.cpp, NAME_few.cpp).
#pragma once

#include <algorithm>

#include "kernels/formats/formats.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

namespace cria {

template <class Isa>
MatMulFn gemv_kernel(DType type);  // gemv/gemv.h
template <class Isa>
MatMulFn gemm_kernel(DType type);  // gemm/gemm.h
template <class Isa>
LayOut gemm_layout(DType type);  // how it wants activations, where they are laid out

template <class Isa>
MatMulFn few_kernel(DType type);  // gemm/few.h
template <class Isa>
LayOut few_layout(DType type);  // how it wants activations, and from how many tokens on

/// How many tokens a GEMV takes, and how many the kernel of few tokens; from more on, a GEMM pays. (Amx: isa/amx.cpp)
template <class Isa, DType type>
struct FewestTokens {
  static constexpr std::size_t kGemv = 8, kFew = 0;
};
template <DType type>
struct FewestTokens<Avx512, type> {
  static constexpr std::size_t kGemv = 3, kFew = 64;
};

template <class Isa, DType type>
void int_product(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  using Most = FewestTokens<Isa, type>;
  const std::size_t n = job.x->n_tokens;
  if (n <= Most::kGemv) return gemv_kernel<Isa>(type)(job, row_begin, row_end, scratch);
  if constexpr (Most::kFew != 0) {
    if (n <= Most::kFew) return few_kernel<Isa>(type)(job, row_begin, row_end, scratch);
  }
  gemm_kernel<Isa>(type)(job, row_begin, row_end, scratch);
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

/// The same, where a few tokens are laid out once for all rows.
template <class Isa>
MatMulKernel int_matmul_of_few(DType type) {
  MatMulKernel kernel = int_matmul<Isa>(type);
  kernel.lay_out = with_dtype(type, [](auto t) -> LayOut {
    if constexpr (is_integer(Format<t>::kClass)) {
      using Most = FewestTokens<Isa, t>;
      if constexpr (Most::kFew != 0) {
        LayOut layout = few_layout<Isa>(t);
        layout.from = std::max(layout.from, Most::kGemv + 1);
        layout.to = Most::kFew;
        return layout;
      }
    }
    return {};
  });
  return kernel;
}

}  // namespace cria
