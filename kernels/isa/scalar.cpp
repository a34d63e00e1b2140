// The scalar kernels: baseline flags, plain C++; they define the bits.
#include "kernels/matmul/scalar.h"
#include "kernels/isa/make_kernels.h"

namespace cria {

template <>
KernelSet kernels_of<ScalarIsa>() noexcept {
  return make_kernels<ScalarIsa, scalar_matmul>();
}

}  // namespace cria
