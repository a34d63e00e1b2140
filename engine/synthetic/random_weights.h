// Random weights of any type, as blocks that mean sensible numbers: for benchmarks and tests of
// models that do not exist.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace cria {

/// Fills rows of cols values (a multiple of the block) with random blocks whose values have mean
/// about 0 and root mean square about 0.02, as trained matrices have. The same seed gives the same
/// bytes. The type must be usable as a weight matrix.
void fill_random_weights(DType type, std::size_t rows, std::size_t cols, std::byte* out,
                         std::uint64_t seed);

}  // namespace cria
