// Products of one token on avx512vnni whose rows are read as long streams: FetchAhead::Streams.
#include "kernels/gemv/wide_blocks.h"
#include "kernels/gemv/wide_codes_iq1.h"
#include "kernels/gemv/wide_codes_iq2.h"
#include "kernels/gemv/wide_codes_iq3.h"
#include "kernels/gemv/wide_k.h"
#include "kernels/gemv/wide_q8.h"

namespace cria {

namespace {

template <DType type>
using Streams = typename OneToken<Avx512, type>::template Reads<Reading::FetchedStreams>;

/// What can gain by it (bench/processors/zen5.md). Code books wait for their look-ups; Q3_K and Q6_K lose, why is not known.
template <DType type>
constexpr bool reads_streams() {
  if constexpr (is_integer(Format<type>::kClass))
    return type != DType::Q3_K && type != DType::Q6_K && requires { typename Streams<type>; };
  return false;
}

}  // namespace

template <>
MatMulFn streams_kernel<Avx512>(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (reads_streams<t>()) return gemv_of_one<Streams<t>>;
    return nullptr;
  });
}

}  // namespace cria
