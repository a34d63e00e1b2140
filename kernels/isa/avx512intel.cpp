// The avx512intel kernels: the GEMM for Intel's processors, and for one token of codebook types
// kernels that gather entries or find codes in lanes; all else is avx512vnni's.
#include "kernels/gemm/avx512_intel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemv/avx512_row_gather.h"
#include "kernels/isa/instruction_set.h"
#include "kernels/matmul/integers.h"

namespace cria {

extern template MatMulFn gemv_kernel<Avx512>(DType type);

namespace {

/// In lanes: avx512_row_codes.h is not measured on Intel's processors.
template <DType type>
void gemv_in_lanes(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                   std::byte* scratch) {
  if (job.x->n_tokens != 1) return gemv_kernel<Avx512>(type)(job, row_begin, row_end, scratch);
  gemv_tokens<Gemv<Avx512Parts<2>, type, 1>, 1>(job, row_begin, row_end, 0);
}

template <DType type>
void gemv_gathered(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                   std::byte* scratch) {
  if (job.x->n_tokens != 1) return gemv_kernel<Avx512>(type)(job, row_begin, row_end, scratch);
  gemv_tokens<RowGemv<type, 1, PrefetchMode::InOrder>, 1>(job, row_begin, row_end, 0);
}

}  // namespace

template <>
MatMulFn gemv_kernel<Avx512Intel>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (gathers_entries(t)) return gemv_gathered<t>;
    if constexpr (t == DType::IQ2_XXS || t == DType::IQ3_XXS || t == DType::IQ3_S)
      return gemv_in_lanes<t>;
    return gemv_kernel<Avx512>(t);
  });
}

template <DType type>
struct TokenLimits<Avx512Intel, type> {
  static constexpr std::size_t kGemv = 3, kSmall = 64;
};
template <>
inline constexpr bool kPacksForGemm<Avx512Intel> = true;

extern template MatMulFn gemm_kernel<Avx512>(DType type);

/// If 16 scales meet large weights, sums are rarely known to fit in int16. avx512vnni, which checks
/// each sum, is faster then (IQ2_S, IQ2_XS: 327 and 311 tokens/s).
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
PackActivations gemm_packing<Avx512Intel>(DType type) {
  return with_dtype(type, [](auto t) -> PackActivations {
    if constexpr (has_own_gemm<t>())
      return packing_of<GemmKernel<Avx512Intel>, panel_shape<Avx512Intel, t>()>();
    return gemm_packing<Avx512>(t);
  });
}

template <>
MatMulFn small_gemm_kernel<Avx512Intel>(DType type) {
  return small_gemm_kernel<Avx512>(type);
}
template <>
PackActivations small_gemm_packing<Avx512Intel>(DType type) {
  return small_gemm_packing<Avx512>(type);
}

namespace {

/// All but the integer products: with the dot product of bfloat16 pairs if the processor has it.
KernelSet avx512_kernels() {
  return runs_here<Avx512Bf16>() ? kernels_of<Avx512Bf16>() : kernels_of<Avx512>();
}

MatMulKernel matmul(DType type) {
  const MatMulKernel kernel = int_matmul<Avx512Intel>(type);
  return kernel.run != nullptr ? kernel : avx512_kernels().matmul(type);
}

}  // namespace

template <>
KernelSet kernels_of<Avx512Intel>() noexcept {
  KernelSet set = avx512_kernels();
  set.isa = Avx512Intel::name;
  set.matmul = matmul;
  return set;
}

template <>
KernelSet kernels_of<Avx512OnIntel>() noexcept {
  return kernels_of<Avx512Intel>();
}

}  // namespace cria
