// The kernels of neon but for the encoders.
#include "kernels/simd/neon.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/neon.h"
#include "kernels/gemv/gemv.h"
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <DType type>
struct GemvOf<Neon, type> {
  template <int T, PrefetchMode mode>
  using Kernel = Gemv<Neon, type, T, mode>;
  static constexpr bool kStreams = false;
};

template MatMulFn gemv_kernel<Neon>(DType type);

template MatMulFn gemm_kernel<Neon>(DType type);

template <>
KernelSet kernels_of<Neon>() noexcept {
  return make_kernels<Neon>(any_matmul<Neon, int_matmul<Neon>>);
}

}  // namespace cria
