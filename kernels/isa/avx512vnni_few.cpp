// The products of integer types with a few tokens on avx512vnni.
#include "kernels/gemm/few512.h"
#include "kernels/matmul/integers.h"

namespace cria {

static_assert(MostTokens<Avx512, DType::Q4_0>::kGemv + 1 >= kMinFewTile &&
              MostTokens<Avx512, DType::Q4_0>::kFew <= kFewTokens);

template <>
MatMulFn few_kernel<Avx512>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return few_tokens<t>;
    return nullptr;
  });
}

template <>
LayOut few_layout<Avx512>(DType type) {
  return with_dtype(type, [](auto t) -> LayOut {
    if constexpr (is_integer(Format<t>::kClass))
      return {lay_out_few<FewDecoder<t>::kShape>, few_tokens_bytes};
    return {};
  });
}

}  // namespace cria
