// The products of integer types with few tokens on avx2.
#include "kernels/gemv/avx2_wide_iq.h"
#include "kernels/gemv/avx2_wide_iq1.h"
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
template <DType type>
requires(requires { sizeof(Avx2Wide<type>); }) struct OneToken<Avx2, type> {
  using Type = Avx2WideGemv<type>;
};

template MatMulFn gemv_kernel<Avx2>(DType type);

}  // namespace cria
