// GEMM and small-batch GEMM of avxvnni.
#include "kernels/gemm/avxvnni.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/small256.h"
#include "kernels/gemm/small256_products.h"
#include "kernels/matmul/integers.h"
#include "kernels/simd/avx2.h"

namespace cria {

template MatMulFn small_gemm_kernel<AvxVnni>(DType type);
template PackActivations small_gemm_packing<AvxVnni>(DType type);

template MatMulFn gemm_kernel<AvxVnni>(DType type);

}  // namespace cria
