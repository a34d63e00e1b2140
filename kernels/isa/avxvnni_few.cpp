// The products of integer types with a few tokens on avxvnni.
#include "kernels/gemm/avxvnni_dots.h"
#include "kernels/gemm/few256.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <>
MatMulFn few_kernel<AvxVnni>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return few_rows<AvxVnni, t>;
    return nullptr;
  });
}

template <>
LayOut few_layout<AvxVnni>(DType type) {
  return with_dtype(type, [](auto t) -> LayOut {
    if constexpr (is_integer(Format<t>::kClass))
      return {lay_out_tiles<RowPacker<AvxVnni, t>::kShape>, token_tiles_bytes};
    return {};
  });
}

}  // namespace cria
