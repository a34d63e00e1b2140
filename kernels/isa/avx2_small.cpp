// Small-batch GEMM of avx2.
#include "kernels/gemm/small256.h"
#include "kernels/gemm/small256_products.h"
#include "kernels/matmul/integers.h"

namespace cria {

template MatMulFn small_gemm_kernel<Avx2>(DType type);
template PackActivations small_gemm_packing<Avx2>(DType type);

}  // namespace cria
