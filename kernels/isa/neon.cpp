// The kernels of neon, but for the products and encoders, which are units of their own.
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <>
KernelSet kernels_of<Neon>() noexcept {
  return make_kernels<Neon, int_matmul<Neon>>();
}

}  // namespace cria
