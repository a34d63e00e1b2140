// The kernel sets that isa_*.cpp define. Only dispatch.cpp looks at them.
#pragma once

#include "kernels/kernels.h"

namespace cria {

extern const KernelSet kScalarKernels;
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
extern const KernelSet kNeonKernels;

}  // namespace cria
