// The products of integer types with a few tokens on avx2.
#include "kernels/gemm/avx2_few.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <>
MatMulFn few_kernel<Avx2>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return few_rows<t>;
    return nullptr;
  });
}

}  // namespace cria
