// The kernels of avx512vnni, but for the products and encoders, which are units of their own.
#include "kernels/gemm/laid_out.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <>
inline constexpr bool kLaysOutForGemm<Avx512> = true;

template <>
KernelSet kernels_of<Avx512>() noexcept {
  static constexpr FetchAhead kFetches[] = {FetchAhead::Near, FetchAhead::Far, FetchAhead::Streams,
                                            FetchAhead::NearStreams};
  KernelSet set = make_kernels<Avx512, int_matmul<Avx512>>();
  set.fetches = kFetches;
  return set;
}

}  // namespace cria
