// The kernels of avx512vnni, but for the products and encoders, which are units of their own.
#include "kernels/gemm/laid_out.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

namespace {

MatMulKernel matmul(DType type) {
  MatMulKernel kernel = int_matmul<Avx512>(type);
  kernel.lay_out = gemm_layout<Avx512>(type);
  static_assert(FewestTokens<Avx512, DType::Q4_0>::kFew + 1 == kLaidOutFrom);
  return kernel;
}

}  // namespace

template <>
KernelSet kernels_of<Avx512>() noexcept {
  static constexpr FetchAhead kFetches[] = {FetchAhead::Near, FetchAhead::Far, FetchAhead::Streams};
  KernelSet set = make_kernels<Avx512, matmul>();
  set.fetches = kFetches;
  return set;
}

}  // namespace cria
