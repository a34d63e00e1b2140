// The neon kernel set; CMakeLists.txt gives this file its own flags.
#include "kernels/kernel_set.h"
#include "kernels/matmul_int.h"

namespace cria {

constinit const KernelSet kNeonKernels = make_kernel_set<Neon, int_matmul<Neon>>();

}  // namespace cria
