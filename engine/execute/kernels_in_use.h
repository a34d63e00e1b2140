// The kernels that this process runs with.
#pragma once

#include <string>

#include "kernels/kernels.h"
#include "model/error.h"

namespace cria {

/// $CRIA_ISA names none that can run here: wrong usage, not a bad file.
class UnknownInstructionSet : public Error {
 public:
  using Error::Error;
};

/// active_kernels(); throws UnknownInstructionSet.
const KernelSet& kernels_in_use();
/// The instruction sets that can run here, best first: "avx512vnni, avx2, scalar".
std::string available_kernel_names();

}  // namespace cria
