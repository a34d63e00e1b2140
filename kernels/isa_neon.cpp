// The neon kernel set; CMakeLists.txt gives this file its own flags.
#include "kernels/kernel_set.h"

namespace cria {

constinit const KernelSet kNeonKernels = make_kernel_set<Neon, scalar_matmul>();

}  // namespace cria
