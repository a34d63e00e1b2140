// GEMV of avx512vnni.
#include "kernels/gemv/avx512_row_blocks.h"
#include "kernels/gemv/avx512_row_ik.h"
#include "kernels/gemv/avx512_row_iq.h"
#include "kernels/gemv/gemv.h"

namespace cria {

template MatMulFn gemv_kernel<Avx512>(DType type);

}  // namespace cria
