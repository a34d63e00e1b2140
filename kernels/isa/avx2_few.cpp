// The products of integer types with a few tokens on avx2.
#include "kernels/gemm/avx2_dots.h"
#include "kernels/gemm/few256.h"
#include "kernels/matmul/integers.h"

namespace cria {

template MatMulFn few_kernel<Avx2>(DType type);
template LayOut few_layout<Avx2>(DType type);

}  // namespace cria
