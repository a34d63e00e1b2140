// The matrix products of the integer types, by type: what isa_*.cpp instantiate.
#pragma once

#include "kernels/gemm.h"
#include "kernels/gemv_blocks32.h"
#include "kernels/gemv_iq.h"
#include "kernels/gemv_k.h"
#include "kernels/gemv_ternary.h"
#if defined(__AVX512BW__)
#include "kernels/gemm_avx512.h"
#include "kernels/gemv_wide_iq.h"
#include "kernels/gemv_wide_k.h"
#elif defined(__AVX2__)
#include "kernels/gemm_avx2.h"
#include "kernels/simd/avx2.h"
#elif defined(__aarch64__)
#include "kernels/gemm_neon.h"
#include "kernels/simd/neon.h"
#endif

namespace cria {

/// From more tokens than this on, packing a panel pays.
inline constexpr std::size_t kGemvTokens = 8;

/// Products of up to kGemvTokens.
template <class Isa, DType type>
struct FewTokens {
  static constexpr MatMulFn run = gemv<Isa, type>;
};

template <class Isa, DType type>
void int_product(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  const MatMulFn run = job.x->n_tokens > kGemvTokens ? gemm<Isa, type> : FewTokens<Isa, type>::run;
  run(job, row_begin, row_end, scratch);
}

template <class Isa, DType type>
constexpr MatMulKernel int_kernel() {
  return {LaneType<RowLanes<Isa>, type>::kSuper ? ActType::Q8x256 : ActType::Q8x32, int_product<Isa, type>};
}

/// The kernel of a type; run is null for types that are not integers in blocks.
template <class Isa>
MatMulKernel int_matmul(DType type) {
  switch (type) {
    case DType::Q4_0:
      return int_kernel<Isa, DType::Q4_0>();
    case DType::Q4_1:
      return int_kernel<Isa, DType::Q4_1>();
    case DType::Q5_0:
      return int_kernel<Isa, DType::Q5_0>();
    case DType::Q5_1:
      return int_kernel<Isa, DType::Q5_1>();
    case DType::Q8_0:
      return int_kernel<Isa, DType::Q8_0>();
    case DType::IQ4_NL:
      return int_kernel<Isa, DType::IQ4_NL>();
    case DType::Q2_K:
      return int_kernel<Isa, DType::Q2_K>();
    case DType::Q3_K:
      return int_kernel<Isa, DType::Q3_K>();
    case DType::Q4_K:
      return int_kernel<Isa, DType::Q4_K>();
    case DType::Q5_K:
      return int_kernel<Isa, DType::Q5_K>();
    case DType::Q6_K:
      return int_kernel<Isa, DType::Q6_K>();
    case DType::IQ4_XS:
      return int_kernel<Isa, DType::IQ4_XS>();
    case DType::IQ3_S:
      return int_kernel<Isa, DType::IQ3_S>();
    case DType::IQ3_XXS:
      return int_kernel<Isa, DType::IQ3_XXS>();
    case DType::IQ2_S:
      return int_kernel<Isa, DType::IQ2_S>();
    case DType::IQ2_XS:
      return int_kernel<Isa, DType::IQ2_XS>();
    case DType::IQ2_XXS:
      return int_kernel<Isa, DType::IQ2_XXS>();
    case DType::IQ1_S:
      return int_kernel<Isa, DType::IQ1_S>();
    case DType::IQ1_M:
      return int_kernel<Isa, DType::IQ1_M>();
    case DType::TQ1_0:
      return int_kernel<Isa, DType::TQ1_0>();
    case DType::TQ2_0:
      return int_kernel<Isa, DType::TQ2_0>();
    default:
      return {};
  }
}

}  // namespace cria
