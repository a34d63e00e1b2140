// The kernels of avx512vnni, but for the products and encoders, which are units of their own.
#include "kernels/isa/make_kernels.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <>
KernelSet kernels_of<Avx512>() noexcept {
  return make_kernels<Avx512, int_matmul<Avx512>>();
}

}  // namespace cria
