// The matrix product that defines the bits (kernels/README.md): one dot product after the other,
// plain C++.
#pragma once

#include "kernels/kernels.h"

namespace cria {

/// The reference kernel of a type; run is null for types that cannot be a weight matrix. Needs no
/// scratch.
MatMulKernel scalar_matmul(DType type);

}  // namespace cria
