// The products of integer types with a few tokens on avx2.
#include "kernels/gemm/avx2_bytes.h"
#include "kernels/gemm/avx2_dots.h"
#include "kernels/gemm/avx2_words.h"
#include "kernels/gemm/few256.h"
#include "kernels/matmul/integers.h"

namespace cria {

namespace {

/// Weights of the full range of a byte, as words but for so few tokens that it does not pay to pack them.
template <DType type>
inline constexpr std::size_t kFewestForWords =
    Format<type>::kClass == DotClass::Super256 ? 12 : kBytesTokens + 1;

template <DType type>
void bytes_or_words(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  constexpr bool kSuper = Format<type>::kClass == DotClass::Super256;
  if (job.x->n_tokens >= kFewestForWords<type>)
    words_rows<type>(job, row_begin, row_end, scratch);
  else if constexpr (kSuper)
    few_rows<Avx2, type>(job, row_begin, row_end, scratch);
  else
    bytes_rows<type>(job, row_begin, row_end, scratch);
}

}  // namespace

template <>
MatMulFn few_kernel<Avx2>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) {
      if constexpr (LaneType<RowLanes<Avx2>, t>::kFull) return bytes_or_words<t>;
      return few_rows<Avx2, t>;
    }
    return nullptr;
  });
}

template <>
LayOut few_layout<Avx2>(DType type) {
  return with_dtype(type, [](auto t) -> LayOut {
    if constexpr (is_integer(Format<t>::kClass)) {
      if constexpr (LaneType<RowLanes<Avx2>, t>::kFull)
        return {lay_out_words<WordsRows<t>::kGroups>, words_tokens_bytes, kFewestForWords<t>};
      else
        return {lay_out_tiles<RowPacker<Avx2, t>::kShape>, token_tiles_bytes};
    }
    return {};
  });
}

}  // namespace cria
