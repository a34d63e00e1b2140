// GEMM of avx2.
#include "kernels/gemm/avx2.h"
#include "kernels/gemm/avx2_pack.h"
#include "kernels/gemm/gemm.h"
#include "kernels/matmul/integers.h"
#include "kernels/simd/avx2.h"

namespace cria {

template MatMulFn gemm_kernel<Avx2>(DType type);

}  // namespace cria
