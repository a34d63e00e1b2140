// How much of the memory the keys and values of an engine would take, before it is made.
#pragma once

#include "engine/engine.h"

namespace cria {

/// Keys and values of the engine, divided by the memory that is available now. Of several ranks:
/// those of all ranks of a machine, on the machine where that is most. Nothing is allocated.
double kv_fraction(const Model& model, const EngineOptions& options);

}  // namespace cria
