// An instruction set as the rest of the module sees it: whether it is supported, and its kernels.
// CMakeLists.txt defines the compiled sets as the list CRIA_ISAS, best first.
#pragma once

#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

namespace cria {

/// True if this machine and its operating system support the set (isa/dispatch.cpp, compiled for
/// the baseline).
template <class Isa>
bool runs_here() noexcept;

/// Its kernels (isa/NAME.cpp, compiled with its flags: only to be called where it runs).
template <class Isa>
KernelSet kernels_of() noexcept;

struct InstructionSet {
  bool (*runs_here)() noexcept;
  KernelSet (*kernels)() noexcept;
};

/// Kernels of a type by kind, each compiled in a file of its own (isa/NAME_KIND.cpp); null for
/// types that are not integers in blocks.
template <class Isa>
MatMulFn gemv_kernel(DType type);
template <class Isa>
MatMulFn small_gemm_kernel(DType type);
template <class Isa>
MatMulFn gemm_kernel(DType type);
/// Their packing; int_matmul() sets the token counts.
template <class Isa>
PackActivations small_gemm_packing(DType type);
template <class Isa>
PackActivations gemm_packing(DType type);
/// KernelSet::encode and KernelSet::dequantize.
template <class Isa>
EncodeFn encoder(DType type);
template <class Isa>
DequantizeFn dequantizer(DType type);

}  // namespace cria
