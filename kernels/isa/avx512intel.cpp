// The avx512intel kernels: integer products of many tokens by the micro-kernel for Intel's
// processors, those of one token where avx512intel_gemv.cpp says so; all else is avx512vnni's.
#include "kernels/gemm/avx512_intel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/isa/avx512_variant.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <DType type>
struct MostTokens<Avx512Intel, type> {
  static constexpr std::size_t kGemv = 3, kFew = 64;
};
template <>
inline constexpr bool kLaysOutForGemm<Avx512Intel> = true;

extern template MatMulFn gemm_kernel<Avx512>(DType type);

/// Where 16 scales meet large weights, sums are seldom known to fit in an int16, and avx512vnni,
/// which looks at each, is ahead (IQ2_S, IQ2_XS: 327 beside 311 tokens/s).
template <DType type>
constexpr bool has_own_gemm() {
  if constexpr (!is_integer(Format<type>::kClass)) {
    return false;
  } else {
    constexpr PanelShape kShape = panel_shape<Avx512Intel, type>();
    return kShape.scales != 16 || kShape.max <= 63;
  }
}

template <>
MatMulFn gemm_kernel<Avx512Intel>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (has_own_gemm<t>()) return gemm<Avx512Intel, t>;
    return gemm_kernel<Avx512>(t);
  });
}

template <>
LayOut gemm_layout<Avx512Intel>(DType type) {
  return with_dtype(type, [](auto t) -> LayOut {
    if constexpr (has_own_gemm<t>())
      return layout_of<GemmKernel<Avx512Intel>, panel_shape<Avx512Intel, t>()>();
    return gemm_layout<Avx512>(t);
  });
}

template <>
MatMulFn few_kernel<Avx512Intel>(DType type) {
  return few_kernel<Avx512>(type);
}
template <>
LayOut few_layout<Avx512Intel>(DType type) {
  return few_layout<Avx512>(type);
}

namespace {

MatMulKernel matmul(DType type) {
  const MatMulKernel kernel = int_matmul<Avx512Intel>(type);
  return kernel.run != nullptr ? kernel : avx512_kernels().matmul(type);
}

}  // namespace

template <>
KernelSet kernels_of<Avx512Intel>() noexcept {
  return avx512_variant(Avx512Intel::name, matmul);
}

template <>
KernelSet kernels_of<Avx512OnIntel>() noexcept {
  return kernels_of<Avx512Intel>();
}

}  // namespace cria
