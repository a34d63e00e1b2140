// The avx2 kernel set; CMakeLists.txt gives this file its own flags.
#include "kernels/kernel_set.h"

namespace cria {

constinit const KernelSet kAvx2Kernels = make_kernel_set<Avx2, scalar_matmul>();

}  // namespace cria
