// Products of one token on avx512vnni whose rows are read as long streams: FetchAhead::Streams and
// NearStreams.
#include "kernels/gemv/wide_blocks.h"
#include "kernels/gemv/wide_codes_iq1.h"
#include "kernels/gemv/wide_codes_iq2.h"
#include "kernels/gemv/wide_codes_iq3.h"
#include "kernels/gemv/wide_k.h"
#include "kernels/gemv/wide_q8.h"

namespace cria {

namespace {

template <DType type, Reading reading>
using Streams = typename OneToken<Avx512, type>::template Reads<reading>;

/// Code books wait for their look-ups; Q3_K and Q6_K lose on Zen 5 with a KiB ahead, why is not
/// known (bench/processors/zen5.md).
template <DType type, Reading reading>
constexpr bool reads_streams() {
  constexpr bool kLoses =
      reading == Reading::FetchedStreams && (type == DType::Q3_K || type == DType::Q6_K);
  if constexpr (is_integer(Format<type>::kClass)) return !kLoses && requires {
      typename Streams<type, reading>;
    };
  return false;
}

template <Reading reading>
MatMulFn kernel_of(DType type) {
  return with_dtype(type, [](auto t) -> MatMulFn {
    if constexpr (reads_streams<t, reading>()) return gemv_of_one<Streams<t, reading>>;
    return nullptr;
  });
}

}  // namespace

template <>
MatMulFn streams_kernel<Avx512>(DType type, FetchAhead fetch) {
  return fetch == FetchAhead::NearStreams ? kernel_of<Reading::NearStreams>(type)
                                          : kernel_of<Reading::FetchedStreams>(type);
}

}  // namespace cria
