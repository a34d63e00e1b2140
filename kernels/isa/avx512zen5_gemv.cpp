// The products of one token that avx512zen5 does otherwise than avx512vnni: it reads rows as long streams.
#include "kernels/gemv/wide_blocks.h"
#include "kernels/gemv/wide_codes_iq1.h"
#include "kernels/gemv/wide_codes_iq2.h"
#include "kernels/gemv/wide_codes_iq3.h"
#include "kernels/gemv/wide_k.h"
#include "kernels/gemv/wide_q8.h"
#include "kernels/matmul/integers.h"

namespace cria {

extern template MatMulFn gemv_kernel<Avx512>(DType type);

namespace {

template <DType type>
using Streams = typename OneToken<Avx512, type>::template Reads<Reading::FetchedStreams>;

/// What gains by it, or is level (bench/README.md). Code books wait for their look-ups; Q3_K and Q6_K lose, why is not known.
template <DType type>
constexpr bool reads_streams() {
  return type != DType::Q3_K && type != DType::Q6_K && requires { typename Streams<type>; };
}

template <DType type>
void gemv_streams(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* scratch) {
  if (job.x->n_tokens != 1) return gemv_kernel<Avx512>(type)(job, row_begin, row_end, scratch);
  gemv_tokens<Streams<type>, 1>(job, row_begin, row_end, 0);
}

}  // namespace

template <>
MatMulFn gemv_kernel<Avx512Zen5>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (is_integer(Format<t>::kClass)) {
      if constexpr (reads_streams<t>()) return gemv_streams<t>;
      return gemv_kernel<Avx512>(t);
    }
    return nullptr;
  });
}

}  // namespace cria
