// The products of integer types with many tokens on avxvnni.
#include "kernels/gemm/avxvnni.h"
#include "kernels/gemm/gemm.h"
#include "kernels/simd/avxvnni.h"

namespace cria {

template MatMulFn gemm_kernel<AvxVnni>(DType type);

}  // namespace cria
