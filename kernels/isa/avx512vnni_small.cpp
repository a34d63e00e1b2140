// Small-batch GEMM of avx512vnni.
#include "kernels/gemm/small512.h"
#include "kernels/matmul/integers.h"

namespace cria {

static_assert(TokenLimits<Avx512, DType::IQ2_XS>::kGemv + 1 >= kMinSmallTile &&
              TokenLimits<Avx512, DType::Q4_0>::kSmall <= kMaxSmallTokens);

template <>
MatMulFn small_gemm_kernel<Avx512>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) return small512_gemm<t>;
    return nullptr;
  });
}

template <>
PackActivations small_gemm_packing<Avx512>(DType type) {
  return with_dtype(type, [](auto t) -> PackActivations {
    if constexpr (is_integer(Format<t>::kClass))
      return {pack_small_tokens<SmallDecoder<t>::kShape>, small_tokens_bytes};
    return {};
  });
}

}  // namespace cria
