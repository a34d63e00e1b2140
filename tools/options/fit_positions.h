// How many positions fit into memory.
#pragma once

#include "engine/engine.h"

namespace cria::tools {

/// `wanted` with positions for all of its sequences at once where they take at most half of what
/// every machine has left, else for fewer; at least for one sequence. n_ctx must be given. draft:
/// the model that guesses, or null. verbose: says on stderr what it takes.
EngineOptions fit_positions(const Model& model, const Model* draft, EngineOptions wanted,
                            bool verbose);

}  // namespace cria::tools
