// The avxvnni kernels: integer products by AVX-VNNI, all else is avx2's.
#include "kernels/isa/instruction_set.h"
#include "kernels/isa/peak.h"
#include "kernels/matmul/integers.h"

namespace cria {

/// A few tokens meet AVX2's own kernel where that pays: hardly with weights of the full range of a byte, which cost AVX2 most.
/// (Measured on Zen 5, bench/README.md.)
template <DType type>
struct FewestTokens<AvxVnni, type> {
  static constexpr bool kSuper = Format<type>::kClass == DotClass::Super256,
                        kBytes = Format<type>::kTraits.q_max - Format<type>::kTraits.q_min > 127;
  static constexpr std::size_t kGemv = kSuper   ? 2
                                       : kBytes ? 8
                                                : 4,
                               kFew = kSuper   ? (kBytes ? 8 : 24)
                                      : kBytes ? 0
                                               : 16;
};

template <>
MatMulFn few_kernel<AvxVnni>(DType type) {
  return few_kernel<Avx2>(type);
}
template <>
LayOut few_layout<AvxVnni>(DType type) {
  return few_layout<Avx2>(type);
}

namespace {

MatMulKernel matmul(DType type) {
  const MatMulKernel kernel = int_matmul_of_few<AvxVnni>(type);
  return kernel.run != nullptr ? kernel : kernels_of<Avx2>().matmul(type);
}

}  // namespace

template <>
KernelSet kernels_of<AvxVnni>() noexcept {
  static constexpr FetchAhead kFetches[] = {FetchAhead::Far, FetchAhead::Near};
  KernelSet set = kernels_of<Avx2>();
  set.isa = AvxVnni::name;
  set.matmul = matmul;
  set.fetches = kFetches;
  set.int8_peak = int8_peak<AvxVnni>;
  return set;
}

}  // namespace cria
