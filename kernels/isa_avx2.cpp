// The avx2 kernel set; CMakeLists.txt gives this file its own flags.
#include "kernels/kernel_set.h"
#include "kernels/matmul_int.h"

namespace cria {

constinit const KernelSet kAvx2Kernels = make_kernel_set<Avx2, int_matmul<Avx2>>();

}  // namespace cria
