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

/// BF16's product by the processor's own instruction, otherwise avx512vnni's (isa_avx512bf16.cpp).
MatMulKernel avx512bf16_matmul(DType type);
std::uint64_t avx512bf16_peak(std::uint64_t rounds);

/// The amx set is avx512vnni's but for these (isa_amx.cpp).
MatMulKernel amx_matmul(DType type);
std::uint64_t amx_peak(std::uint64_t rounds);

}  // namespace cria
