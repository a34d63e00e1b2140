// All kernels of one instruction set: what isa/NAME.cpp instantiate.
#pragma once

#include "kernels/attention/store_kv.h"
#include "kernels/attention/tiles.h"
#include "kernels/encode/lanes.h"
#include "kernels/isa/instruction_set.h"
#include "kernels/isa/peak.h"
#include "kernels/kernels.h"
#include "kernels/matmul/floats.h"
#include "kernels/recurrent/convolution.h"
#include "kernels/recurrent/decay.h"
#include "kernels/recurrent/recurrence.h"
#include "kernels/recurrent/scan.h"
#include "kernels/rows/activate.h"
#include "kernels/rows/log_softmax.h"
#include "kernels/rows/quantize.h"
#include "kernels/rows/row_ops.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// The kernel of a type: of floats, of integers in blocks (Int), or else the scalar one.
template <class Isa, MatMulKernel (*Int)(DType)>
MatMulKernel any_matmul(DType type) {
  if (const MatMulKernel kernel = float_matmul_kernel<Isa>(type); kernel.run != nullptr)
    return kernel;
  if (type == DType::BF16)
    return {ActType::BF16, bf16_matmul<Bf16Pairs<Isa>>,
            float_packing<Bf16Pairs<Isa>, Stored::F32>()};
  if (const MatMulKernel kernel = Int(type); kernel.run != nullptr) return kernel;
  return scalar_matmul(type);
}

/// Encodes and dequantizes by the kernels of Rows.
template <class Isa, class Rows = Isa>
constexpr KernelSet make_kernels(MatMulKernel (*matmul)(DType)) {
  KernelSet set{.isa = Isa::name,
                .matmul = matmul,
                .encode = encoder<Rows>,
                .dequantize = dequantizer<Rows>,
                .quantize = quantize<Isa>,
                .rms_norm = rms_norm<Isa>,
                .layer_norm = layer_norm<Isa>,
                .rope = rope<Isa>,
                .silu_mul = silu_mul<Isa>,
                .activate = activate<Isa>,
                .add = add<Isa>,
                .add_scaled = add_scaled<Isa>,
                .subtract_rows = subtract_rows<Isa>,
                .scale = scale_row<Isa>,
                .soft_cap = soft_cap_row<Isa>,
                .clamp = clamp<Isa>,
                .softmax = softmax<Isa>,
                .log_sum_exp = log_sum_exp<Isa>,
                .mean_difference = mean_difference<Isa>,
                .store_kv = store_kv<Isa>,
                .attention = attention<Isa>,
                .merge_segments = merge_segments<Isa>,
                .convolution = convolution<Isa>,
                .recurrence = recurrence<Isa>,
                .selective_scan = selective_scan<Isa>,
                .softplus_decay = softplus_decay<Isa>};
  if constexpr (requires { typename Isa::Arch; }) {
    set.int8_peak = int8_peak<Isa>;
    set.float_peak = float_peak<Isa>;
    set.read_peak = read_peak<Isa>;
    set.read_streams_peak = read_streams_peak<Isa>;
  }
  return set;
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
