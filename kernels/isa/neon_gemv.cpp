// The products of integer types with few tokens on neon.
#include "kernels/gemv/gemv.h"
#include "kernels/simd/neon.h"

namespace cria {

template <DType type>
struct OneToken<Neon, type> {
  using Type = Gemv<Neon, type, 1>;
};

template MatMulFn gemv_kernel<Neon>(DType type);

}  // namespace cria
