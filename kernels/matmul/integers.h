// The matrix products of the integer types: a GEMV for one token or few, a GEMM for more, and where
// there is one a kernel for those in between; each compiled in a unit of its own
// (isa/NAME_gemv.cpp, NAME_gemm.cpp, NAME_few.cpp).
#pragma once

#include <algorithm>

#include "kernels/formats/formats.h"
#include "kernels/gemv/fetch_ahead.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

namespace cria {

template <class Isa>
MatMulFn gemv_kernel(DType type);  // gemv/gemv.h
template <class Isa>
MatMulFn few_kernel(DType type);  // gemm/few512.h, few256.h
template <class Isa>
MatMulFn gemm_kernel(DType type);  // gemm/gemm.h
/// How these want activations to be laid out; from how many tokens on is int_matmul()'s to say.
template <class Isa>
LayOut few_layout(DType type);
template <class Isa>
LayOut gemm_layout(DType type);

/// Whether there is a gemm_layout().
template <class Isa>
inline constexpr bool kLaysOutForGemm = false;

/// How many tokens a GEMV takes at most, and how many the kernel of few tokens; from more on, a
/// GEMM pays. (Of the other sets: isa/NAME.cpp; all at a glance: kernels/README.md)
template <class Isa, DType type>
struct MostTokens {
  static constexpr std::size_t kGemv = 8, kFew = 0;
};
template <DType type>
struct MostTokens<Avx512, type> {
  static constexpr std::size_t kGemv = 3, kFew = 64;
  /// With a larger first-level cache, or a scale for every sixteen columns, the GEMM is ahead from
  /// 48 on (measured: bench/processors/zen4.md, zen5.md).
  static std::size_t few() {
    return kSmallFirstCache && Format<type>::kTraits.sub_block != 16 ? kFew : 47;
  }
};

/// Tokens that the kernel of few takes on this processor: kFew, or less where few() says so.
template <class Isa, DType type>
std::size_t most_few() {
  using Most = MostTokens<Isa, type>;
  if constexpr (requires { Most::few(); })
    return Most::few();
  else
    return Most::kFew;
}

template <class Isa, DType type>
void int_product(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                 std::byte* scratch) {
  using Most = MostTokens<Isa, type>;
  static_assert(Most::kGemv >= 1);  // 0 tokens are a GEMV's, too
  const std::size_t n = job.x->n_tokens;
  if (n <= Most::kGemv) return gemv_kernel<Isa>(type)(job, row_begin, row_end, scratch);
  if constexpr (Most::kFew != 0) {
    if (n <= most_few<Isa, type>()) return few_kernel<Isa>(type)(job, row_begin, row_end, scratch);
  }
  gemm_kernel<Isa>(type)(job, row_begin, row_end, scratch);
}

template <class Isa, DType type>
MatMulKernel int_matmul_of() {
  using Most = MostTokens<Isa, type>;
  MatMulKernel kernel{activations_of(Format<type>::kClass), int_product<Isa, type>};
  if constexpr (Most::kFew != 0) {
    kernel.lay_out_few = few_layout<Isa>(type);
    kernel.lay_out_few.from = Most::kGemv + 1;
    kernel.lay_out_few.to = most_few<Isa, type>();
  }
  if constexpr (kLaysOutForGemm<Isa>) {
    kernel.lay_out = gemm_layout<Isa>(type);
    kernel.lay_out.from = std::max(Most::kGemv, most_few<Isa, type>()) + 1;
  }
  return kernel;
}

/// The kernel of a type; run is null for types that are not integers in blocks.
template <class Isa>
MatMulKernel int_matmul(DType type) {
  return with_dtype(type, [](auto t) -> MatMulKernel {
    if constexpr (is_integer(Format<t>::kClass)) return int_matmul_of<Isa, t>();
    return {};
  });
}

}  // namespace cria
