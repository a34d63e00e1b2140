// What processors with the dot product of bfloat16 pairs do in their own way: BF16 weights. All else is
// avx512vnni's.
#include "kernels/isa_sets.h"
#include "kernels/matmul_bf16.h"
#include "kernels/peak.h"

namespace cria {

MatMulKernel avx512bf16_matmul(DType type) {
  if (type == DType::BF16) return {ActType::BF16, bf16_matmul<Avx512Bf16>};
  return kAvx512Kernels.matmul(type);
}

std::uint64_t avx512bf16_peak(std::uint64_t rounds) {
  return float_peak<Avx512Bf16, FloatOps<Avx512Bf16>, 2>(rounds);
}

}  // namespace cria
