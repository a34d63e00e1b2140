// The encoders of weights, by type: what encode_*.cpp instantiate.
#pragma once

#include "kernels/encode_float.h"
#include "kernels/encode_q8_0.h"
#include "kernels/encode_symmetric32.h"
#include "kernels/isa_sets.h"

namespace cria {

template <class Isa>
EncodeFn encoder(DType type) {
  switch (type) {
    case DType::F32:
      return encode_f32<Isa>;
    case DType::F16:
      return encode_f16<Isa>;
    case DType::BF16:
      return encode_bf16<Isa>;
    case DType::Q4_0:
      return encode_symmetric32<Isa, BlockQ4_0, 4>;
    case DType::Q8_0:
      return encode_q8_0<Isa>;
    default:
      return nullptr;
  }
}

}  // namespace cria
