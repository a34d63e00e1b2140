// The products of integer types with many tokens on avx2. Weights of the full range of a byte are
// words, with up to kWordsMostTokens tokens in panels of few rows.
#include "kernels/gemm/avx2.h"
#include "kernels/gemm/avx2_pack.h"
#include "kernels/gemm/avx2_words.h"
#include "kernels/gemm/gemm.h"
#include "kernels/matmul/integers.h"
#include "kernels/simd/avx2.h"

namespace cria {

namespace {

template <DType type>
void words(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  const auto run = job.x->n_tokens <= kWordsMostTokens ? words_rows<type> : gemm<Avx2, type>;
  run(job, row_begin, row_end, scratch);
}

template <DType type>
constexpr bool is_words() {
  if constexpr (is_integer(Format<type>::kClass))
    return LaneType<RowLanes<Avx2>, type>::kFull;
  else
    return false;
}

}  // namespace

template <>
MatMulFn gemm_kernel<Avx2>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_words<t>())
      return words<t>;
    else if constexpr (is_integer(Format<t>::kClass))
      return gemm<Avx2, t>;
    return nullptr;
  });
}

template <>
LayOut gemm_layout<Avx2>(DType type) {
  return with_dtype(type, [](auto t) -> LayOut {
    if constexpr (is_words<t>())
      return {lay_out_words<WordsRows<t>::kGroups>, words_tokens_bytes, 0, kWordsMostTokens};
    return {};
  });
}

}  // namespace cria
