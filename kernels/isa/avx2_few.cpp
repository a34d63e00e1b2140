// The products of integer types with a few tokens on avx2.
#include "kernels/gemm/avx2_dots.h"
#include "kernels/gemm/avx2_words.h"
#include "kernels/gemm/few256.h"
#include "kernels/matmul/integers.h"

namespace cria {

namespace {

/// Weights of the full range of a byte are words but for so few tokens that it does not pay to pack them.
constexpr std::size_t kFewestForWords = 12;

template <DType type>
void bytes_or_words(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  const auto run = job.x->n_tokens < kFewestForWords ? few_rows<Avx2, type> : words_rows<type>;
  run(job, row_begin, row_end, scratch);
}

/// LayOut::run and LayOut::bytes of these.
template <DType type>
void lay_out_bytes_or_words(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) {
  if (x.n_tokens < kFewestForWords)
    lay_out_tiles<RowPacker<Avx2, type>::kShape>(x, t0, t1, to);
  else
    lay_out_words<WordsRows<type>::kGroups>(x, t0, t1, to);
}
std::size_t bytes_or_words_bytes(std::size_t n_tokens, std::size_t cols) {
  return (n_tokens < kFewestForWords ? token_tiles_bytes : words_tokens_bytes)(n_tokens, cols);
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
        return {lay_out_bytes_or_words<t>, bytes_or_words_bytes};
      else
        return {lay_out_tiles<RowPacker<Avx2, t>::kShape>, token_tiles_bytes};
    }
    return {};
  });
}

}  // namespace cria
