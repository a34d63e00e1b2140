// The scalar kernel set: baseline flags, plain C++; defines the bits.
#include "kernels/kernel_set.h"

namespace cria {

constinit const KernelSet kScalarKernels = make_kernel_set<ScalarIsa, scalar_matmul>();

}  // namespace cria
