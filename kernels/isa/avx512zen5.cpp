// The avx512zen5 kernels: integer products of one token where avx512zen5_gemv.cpp says so; all else is avx512vnni's.
#include "kernels/isa/avx512_variant.h"
#include "kernels/matmul/integers.h"

namespace cria {

template <DType type>
struct FewestTokens<Avx512Zen5, type> : FewestTokens<Avx512, type> {};

template <>
MatMulFn gemm_kernel<Avx512Zen5>(DType type) {
  return gemm_kernel<Avx512>(type);
}

template <>
MatMulFn few_kernel<Avx512Zen5>(DType type) {
  return few_kernel<Avx512>(type);
}

namespace {

MatMulKernel matmul(DType type) {
  MatMulKernel kernel = avx512_kernels().matmul(type);
  if (const MatMulFn own = int_matmul<Avx512Zen5>(type).run; own != nullptr) kernel.run = own;
  return kernel;
}

}  // namespace

template <>
KernelSet kernels_of<Avx512Zen5>() noexcept {
  return avx512_variant(Avx512Zen5::name, matmul);
}

template <>
KernelSet kernels_of<Avx512OnZen5>() noexcept {
  return kernels_of<Avx512Zen5>();
}

}  // namespace cria
