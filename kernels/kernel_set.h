// All kernels of one instruction set: what isa_*.cpp instantiate.
#pragma once

#include "kernels/attention_impl.h"
#include "kernels/isa_sets.h"
#include "kernels/log_softmax.h"
#include "kernels/matmul_bf16.h"
#include "kernels/matmul_float.h"
#include "kernels/matmul_scalar.h"
#include "kernels/peak.h"
#include "kernels/quantize.h"
#include "kernels/row_ops.h"
#include "kernels/store_kv.h"

namespace cria {

/// The F32, F16 and BF16 kernels, the integer types' own (Int), or the scalar kernel where a set has none.
template <class Isa, MatMulKernel (*Int)(DType)>
MatMulKernel any_matmul(DType type) {
  if (const MatMulKernel kernel = float_matmul_kernel<Isa>(type); kernel.run != nullptr) return kernel;
  if (type == DType::BF16) return {ActType::BF16, bf16_matmul<Bf16Pairs<Isa>>};
  if (const MatMulKernel kernel = Int(type); kernel.run != nullptr) return kernel;
  return scalar_matmul(type);
}

template <class Isa, MatMulKernel (*Int)(DType)>
constexpr KernelSet make_kernel_set() {
  KernelSet set{.isa = Isa::name,
                .matmul = any_matmul<Isa, Int>,
                .encode = encoder<Isa>,
                .quantize = quantize<Isa>,
                .rms_norm = rms_norm<Isa>,
                .rope = rope<Isa>,
                .silu_mul = silu_mul<Isa>,
                .add = add<Isa>,
                .softmax = softmax<Isa>,
                .log_sum_exp = log_sum_exp<Isa>,
                .mean_difference = mean_difference<Isa>,
                .store_kv = store_kv<Isa>,
                .attention = attention<Isa>};
  if constexpr (requires { typename Isa::Arch; }) {
    set.int8_peak = int8_peak<Isa>;
    set.float_peak = float_peak<Isa>;
    set.read_peak = read_peak<Isa>;
  }
  return set;
}

}  // namespace cria
