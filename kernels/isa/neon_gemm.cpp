// The products of integer types with many tokens on neon.
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/neon.h"
#include "kernels/simd/neon.h"

namespace cria {

template MatMulFn gemm_kernel<Neon>(DType type);

}  // namespace cria
