// The floating-point mode in which products of BF16 weights run: the processors' own instruction
// for them takes subnormal numbers for zero, so every other kernel does.
#pragma once

#include "kernels/simd/float_mode.h"

namespace cria {

/// While it lives, the calling thread's float instructions read and write zero instead of subnormal
/// numbers.
class SubnormalsAsZero : FloatModeScope {
 public:
  SubnormalsAsZero() noexcept : FloatModeScope(get() | kSubnormalsAsZero) {}
};

}  // namespace cria
