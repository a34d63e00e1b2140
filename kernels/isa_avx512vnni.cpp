// The avx512vnni kernel set; CMakeLists.txt gives this file its own flags.
#include "kernels/kernel_set.h"
#include "kernels/matmul_int.h"

namespace cria {

constinit const KernelSet kAvx512Kernels = make_kernel_set<Avx512, int_matmul<Avx512>>();

}  // namespace cria
