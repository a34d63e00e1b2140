// The products of integer types with few tokens on avxvnni.
#include "kernels/gemv/gemv.h"
#include "kernels/simd/avxvnni.h"

namespace cria {

template <DType type>
struct OneToken<AvxVnni, type> {
  using Type = Gemv<AvxVnni, type, 1>;
};

template MatMulFn gemv_kernel<AvxVnni>(DType type);

}  // namespace cria
