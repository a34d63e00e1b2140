// What the program looks for in the module that connects ranks by MPI. Only a program that mpirun
// has started loads it, so that others need no MPI and do not wait for its libraries.
#pragma once

#include "engine/ranks/ranks.h"

namespace cria {

inline constexpr const char* kMpiModule = "cria_mpi.so";
inline constexpr const char* kMpiEntry = "cria_join_mpi";

/// The entry: joins the other processes; null (and a reason of at most `size` bytes) if that fails.
/// To be deleted, by all ranks at the same time, when there is nothing more to do; once per
/// process.
using JoinMpi = Ranks* (*)(char* reason, std::size_t size);

}  // namespace cria
