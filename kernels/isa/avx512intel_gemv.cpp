// The products of one token that avx512intel does otherwise than avx512vnni: for codebook types it
// gathers entries, or finds codes in lanes.
#include "kernels/gemv/wide_iq.h"
#include "kernels/matmul/integers.h"

namespace cria {

extern template MatMulFn gemv_kernel<Avx512>(DType type);

namespace {

/// In lanes: wide_codes.h is not measured there.
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
  gemv_tokens<WideGemv<type>, 1>(job, row_begin, row_end, 0);
}

}  // namespace

template <>
MatMulFn gemv_kernel<Avx512Intel>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (has_wide_entries(t)) return gemv_gathered<t>;
    if constexpr (t == DType::IQ2_XXS || t == DType::IQ3_XXS || t == DType::IQ3_S)
      return gemv_in_lanes<t>;
    return gemv_kernel<Avx512>(t);
  });
}

}  // namespace cria
