// How large a value a type of weights holds.
#pragma once

#include "kernels/formats/dtype.h"

namespace cria {

/// The largest magnitude that encoding to a type keeps, but for rounding; what is beyond would be
/// cut off or become infinite.
constexpr float largest_held(DType type) {
  switch (type) {
    case DType::F32:
      return 0x1.FFFFFEp127F;
    case DType::BF16:
      return 0x1.FEFFFEp127F;  // the next float is rounded to infinity
    case DType::NVFP4:
      return 2688;  // 12 · half of the largest UE4M3
    case DType::MXFP4:
    case DType::IQ4_KS:
      return 0x1p40F;  // their scales reach farther; the encoders take no more
    default:
      return 65504;  // the largest f16, which scales and products are made for
  }
}

}  // namespace cria
