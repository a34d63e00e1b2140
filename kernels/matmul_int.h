#pragma once
#include "kernels/gemv_blocks32.h"
#include "kernels/gemv_k.h"
namespace cria {
template <class Isa>
MatMulKernel int_matmul(DType type) {
  switch (type) {
    case DType::Q4_0: return {ActType::Q8x32, gemv<Isa, DType::Q4_0>};
    case DType::Q8_0: return {ActType::Q8x32, gemv<Isa, DType::Q8_0>};
    case DType::Q4_K: return {ActType::Q8x256, gemv<Isa, DType::Q4_K>};
    case DType::Q6_K: return {ActType::Q8x256, gemv<Isa, DType::Q6_K>};
    default: return {};
  }
}
}  // namespace cria
