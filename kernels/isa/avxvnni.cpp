// The avxvnni kernels: integer products by AVX-VNNI, all else is avx2's.
#include "kernels/gemm/packed_activations.h"
#include "kernels/isa/instruction_set.h"
#include "kernels/isa/peak.h"
#include "kernels/matmul/integers.h"

namespace cria {

/// Measured on Zen 5 (bench/processors/avxvnni.md): from two or three tokens on, panels of sixteen
/// rows pay.
template <DType type>
struct TokenLimits<AvxVnni, type> {
  static constexpr std::size_t kGemv = Format<type>::kClass == DotClass::Super256 ? 1 : 2,
                               kSmall = kTiledTokens;
};

namespace {

MatMulKernel matmul(DType type) {
  const MatMulKernel kernel = int_matmul<AvxVnni>(type);
  return kernel.run != nullptr ? kernel : kernels_of<Avx2>().matmul(type);
}

}  // namespace

template <>
KernelSet kernels_of<AvxVnni>() noexcept {
  KernelSet set = kernels_of<Avx2>();
  set.isa = AvxVnni::name;
  set.matmul = matmul;
  set.prefetch_modes = {};
  set.int8_peak = int8_peak<AvxVnni>;
  return set;
}

}  // namespace cria
