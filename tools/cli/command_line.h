// Words of the command line to values of flags.
#pragma once
#include <string>

#include "tools/cli/flag.h"

namespace cria::tools {

/// Gives the words to the flags of the command that they name, with names of llama.cpp replaced by
/// ours. Returns the command; null for the program's own --help and --version. Throws UsageError
/// for an unknown command or flag, a missing value and an argument too many.
Command* read_arguments(Program& program, const Words& typed);

/// "unknown command: rnu; did you mean run? (cria help lists the commands)"
std::string unknown_command(const Program& program, const std::string& name);

/// Checks the given values and which flags are there together, and sets the flags' targets. Throws
/// UsageError.
void set_values(Command& command);

/// "cria 0.1.0 (commit 0123456789; runs on avx2, scalar; several machines by MPI)"
std::string version_text();
/// Version and commit: what two machines must agree in.
std::string program_version();

}  // namespace cria::tools
