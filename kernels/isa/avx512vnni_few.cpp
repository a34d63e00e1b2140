// The products of integer types with a few tokens on avx512vnni.
#include "kernels/gemm/few.h"
#include "kernels/matmul/integers.h"

namespace cria {

static_assert(FewestTokens<Avx512, DType::Q4_0>::kGemv + 1 >= kLeastFewTile &&
              FewestTokens<Avx512, DType::Q4_0>::kFew <= kFewTokens);

template <>
MatMulFn few_kernel<Avx512>(DType type) {
  return few_kernel_of(type);
}

}  // namespace cria
