// The kernels of avx2, but for the products and encoders, which are units of their own.
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <>
KernelSet kernels_of<Avx2>() noexcept {
  return make_kernels<Avx2, int_matmul<Avx2>>();
}

}  // namespace cria
