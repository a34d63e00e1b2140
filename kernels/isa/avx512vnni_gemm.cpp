// The products of integer types with many tokens on avx512vnni.
#include "kernels/gemm/avx512.h"
#include "kernels/gemm/gemm.h"
#include "kernels/matmul/integers.h"
#include "kernels/simd/avx512.h"

namespace cria {

template MatMulFn gemm_kernel<Avx512>(DType type);

template <>
PackActivations gemm_packing<Avx512>(DType type) {
  return with_dtype(type, [](auto t) -> PackActivations {
    if constexpr (is_integer(Format<t>::kClass))
      return packing_of<GemmKernel<Avx512>, panel_shape<Avx512, t>()>();
    return {};
  });
}

}  // namespace cria
