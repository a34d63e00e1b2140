// All encoders: what isa/*_encode.cpp instantiate.
#pragma once

#include "kernels/encode/affine32.h"
#include "kernels/encode/affine_k.h"
#include "kernels/encode/encoder.h"
#include "kernels/encode/floats.h"
#include "kernels/encode/iq.h"
#include "kernels/encode/iq4_ks.h"
#include "kernels/encode/mxfp4.h"
#include "kernels/encode/nvfp4.h"
#include "kernels/encode/q1_0.h"
#include "kernels/encode/q8_0.h"
#include "kernels/encode/symmetric32.h"
#include "kernels/encode/symmetric_k.h"
#include "kernels/encode/ternary.h"

namespace cria {

template <class Isa>
EncodeFn encoder(DType type) {
  return with_dtype(type, [](auto t) -> EncodeFn {
    if constexpr (Format<t>::kClass != DotClass::None) return Encoder<Isa, t>::run;
    return nullptr;
  });
}

}  // namespace cria
