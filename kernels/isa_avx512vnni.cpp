// The avx512vnni kernel set; CMakeLists.txt gives this file its own flags.
#include "kernels/kernel_set.h"

namespace cria {

constinit const KernelSet kAvx512Kernels = make_kernel_set<Avx512, scalar_matmul>();

}  // namespace cria
