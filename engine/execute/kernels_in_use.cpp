#include "engine/execute/kernels_in_use.h"

#include <cstdlib>

namespace cria {

std::string available_kernel_names() {
  std::string names;
  for (const KernelSet* set : available_kernels())
    names += (names.empty() ? "" : ", ") + std::string(set->isa);
  return names;
}

const KernelSet& kernels_in_use() {
  if (const KernelSet* kernels = active_kernels()) return *kernels;
  const char* const named = std::getenv("CRIA_ISA");
  throw UnknownInstructionSet("CRIA_ISA=" + printable(named == nullptr ? "" : named) +
                              " names no instruction set that can run here: expected one of " +
                              available_kernel_names());
}

}  // namespace cria
