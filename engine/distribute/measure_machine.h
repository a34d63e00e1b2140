// How fast this machine computes its part of a model, as one of several would.
#pragma once

#include "engine/distribute/machines_plan.h"
#include "engine/execute/machine.h"
#include "engine/model.h"

namespace cria {

/// Computes the part of a rank that has heads, of so few machines that it fits into so many bytes
/// (and into 4 GiB), alone, and puts nobody's results beside its own: what comes out means nothing,
/// but takes as long. Throws Error if no part fits.
MachineRates measure_machine(const Model& model, const PlannedWork& work,
                             std::size_t memory = available_memory());

}  // namespace cria
