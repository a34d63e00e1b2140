// avx512vnni on processors that have the dot product of bfloat16 pairs: BF16 weights are multiplied
// by it.
#include "kernels/isa/instruction_set.h"
#include "kernels/isa/peak.h"
#include "kernels/matmul/floats.h"

namespace cria {
namespace {

MatMulKernel matmul(DType type) {
  if (type == DType::BF16)
    return {ActType::BF16, bf16_matmul<Avx512Bf16>, float_packing<Avx512Bf16, Stored::F32>()};
  return kernels_of<Avx512>().matmul(type);
}

std::uint64_t bf16_peak(std::uint64_t rounds) {
  return float_peak<Avx512Bf16, FloatOps<Avx512Bf16>, 2>(rounds);
}

}  // namespace

template <>
KernelSet kernels_of<Avx512Bf16>() noexcept {
  KernelSet set = kernels_of<Avx512>();
  set.matmul = matmul;
  set.bf16_peak = bf16_peak;
  return set;
}

}  // namespace cria
