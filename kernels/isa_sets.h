// The kernel sets that isa_*.cpp define. Only dispatch.cpp looks at them.
#pragma once

#include "kernels/kernels.h"

namespace cria {

extern const KernelSet kScalarKernels;
extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
extern const KernelSet kNeonKernels;

/// The encoder of a type or null: KernelSet::encode, instantiated by encode_*.cpp.
template <class Isa>
EncodeFn encoder(DType type);

/// The amx set is avx512vnni's but for these (isa_amx.cpp).
MatMulKernel amx_matmul(DType type);
std::uint64_t amx_peak(std::uint64_t rounds);

}  // namespace cria
