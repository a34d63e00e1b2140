// The products of integer types with a few tokens on avxvnni.
#include "kernels/gemm/avxvnni_dots.h"
#include "kernels/gemm/few256.h"
#include "kernels/matmul/integers.h"

namespace cria {

template MatMulFn few_kernel<AvxVnni>(DType type);
template LayOut few_layout<AvxVnni>(DType type);

}  // namespace cria
