// Sets that are avx512vnni but for some of the products of integer types.
#pragma once

#include "kernels/isa/instruction_set.h"

namespace cria {

/// What they do as avx512vnni does: with AVX-512's dot product of bfloat16 pairs where that runs.
inline KernelSet avx512_kernels() {
  return runs_here<Avx512Bf16>() ? kernels_of<Avx512Bf16>() : kernels_of<Avx512>();
}

/// Those with a name and matrix products of their own.
inline KernelSet avx512_variant(std::string_view name, MatMulKernel (*matmul)(DType)) {
  KernelSet set = avx512_kernels();
  set.isa = name;
  set.matmul = matmul;
  return set;
}

}  // namespace cria
