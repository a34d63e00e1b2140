// The products of integer types with many tokens on avx512vnni.
#include "kernels/gemm/avx512.h"
#include "kernels/gemm/gemm.h"
#include "kernels/simd/avx512.h"

namespace cria {

template MatMulFn gemm_kernel<Avx512>(DType type);

}  // namespace cria
