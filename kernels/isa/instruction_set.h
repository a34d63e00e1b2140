// What an instruction set is to the rest of the room: whether it runs here, and its kernels. The
// sets that are compiled in are the list CRIA_ISAS, which CMakeLists.txt makes, best first.
#pragma once

#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

namespace cria {

/// Whether this machine and its operating system can run it (isa/cpu.cpp, compiled for the
/// baseline).
template <class Isa>
bool runs_here() noexcept;

/// Its kernels (isa/NAME.cpp, compiled with its flags: only to be called where it runs).
template <class Isa>
KernelSet kernels_of() noexcept;

struct InstructionSet {
  bool (*runs_here)() noexcept;
  KernelSet (*kernels)() noexcept;
};

}  // namespace cria
