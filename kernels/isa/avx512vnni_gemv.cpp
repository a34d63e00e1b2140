// The products of integer types with few tokens on avx512vnni.
#include "kernels/gemv/gemv.h"
#include "kernels/gemv/wide_blocks.h"
#include "kernels/gemv/wide_codes_iq1.h"
#include "kernels/gemv/wide_codes_iq2.h"
#include "kernels/gemv/wide_codes_iq3.h"
#include "kernels/gemv/wide_k.h"
#include "kernels/gemv/wide_q8.h"

namespace cria {

template MatMulFn gemv_kernel<Avx512>(DType type);

}  // namespace cria
