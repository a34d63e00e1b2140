// The encoders of weights, by type: what encode_*.cpp instantiate.
#pragma once

#include "kernels/encode_affine32.h"
#include "kernels/encode_affine_k.h"
#include "kernels/encode_float.h"
#include "kernels/encode_iq.h"
#include "kernels/encode_q8_0.h"
#include "kernels/encode_symmetric32.h"
#include "kernels/encode_symmetric_k.h"
#include "kernels/encode_ternary.h"
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
      return encode_symmetric32<Isa, BlockQ4_0, IntegerGrid<Isa, -8, 7>>;
    case DType::Q4_1:
      return encode_affine32<Isa, BlockQ4_1, 15>;
    case DType::Q5_0:
      return encode_symmetric32<Isa, BlockQ5_0, IntegerGrid<Isa, -16, 15>>;
    case DType::Q5_1:
      return encode_affine32<Isa, BlockQ5_1, 31>;
    case DType::Q8_0:
      return encode_q8_0<Isa>;
    case DType::IQ4_NL:
      return encode_symmetric32<Isa, BlockIQ4_NL, Iq4Grid<Isa>>;
    case DType::Q2_K:
      return encode_affine_super<Isa, BlockQ2_K, 3, 16, 15>;
    case DType::Q3_K:
      return encode_symmetric_super<Isa, BlockQ3_K, IntegerGrid<Isa, -4, 3>, 16, 6>;
    case DType::Q4_K:
      return encode_affine_super<Isa, BlockQ4_K, 15, 32, 63>;
    case DType::Q5_K:
      return encode_affine_super<Isa, BlockQ5_K, 31, 32, 63>;
    case DType::Q6_K:
      return encode_symmetric_super<Isa, BlockQ6_K, IntegerGrid<Isa, -32, 31>, 16, 8>;
    case DType::IQ4_XS:
      return encode_symmetric_super<Isa, BlockIQ4_XS, Iq4Grid<Isa>, 32, 6>;
    case DType::TQ1_0:
      return encode_ternary<Isa, BlockTQ1_0>;
    case DType::TQ2_0:
      return encode_ternary<Isa, BlockTQ2_0>;
    default:
      return iq_encoder<Isa>(type);
  }
}

}  // namespace cria
