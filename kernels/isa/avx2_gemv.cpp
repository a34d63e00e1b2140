// The products of integer types with few tokens on avx2.
#include "kernels/gemv/avx2_wide_iq.h"
#include "kernels/gemv/avx2_wide_iq4.h"
#include "kernels/gemv/avx2_wide_k.h"
#include "kernels/gemv/avx2_wide_ternary.h"
#include "kernels/gemv/gemv.h"
#include "kernels/simd/avx2.h"

namespace cria {

template <DType type>
struct OneToken<Avx2, type> {
  using Type = Gemv<Avx2, type, 1>;
};
/// Q4_K is faster so from cache and in a loop over a large matrix, but 5 % slower in a whole model on two threads: why is not
/// known yet.
template <DType type>
requires(type != DType::Q4_K && requires { sizeof(Avx2Wide<type>); }) struct OneToken<Avx2, type> {
  using Type = Avx2WideGemv<type>;
};

template MatMulFn gemv_kernel<Avx2>(DType type);

}  // namespace cria
