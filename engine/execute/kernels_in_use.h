// The kernels that this process runs with.
#pragma once

#include <string>

#include "kernels/kernels.h"

namespace cria {

/// active_kernels(); throws Error if $CRIA_ISA names none that can run here.
const KernelSet& kernels_in_use();
/// The instruction sets that can run here, best first: "avx512vnni, avx2, scalar".
std::string available_kernel_names();

}  // namespace cria
