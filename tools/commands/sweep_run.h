// The run of `cria sweep`: models that are there, models that are made; a table and plots of them
// in a directory.
#pragma once

#include "tools/commands/sweep_measure.h"

namespace cria::tools {

/// The exit code: 1 where a model failed, whose row then says why. Throws Error and Interrupted;
/// what was measured is kept in the directory.
int run_sweep(SweepOptions options, const Model& base);

}  // namespace cria::tools
