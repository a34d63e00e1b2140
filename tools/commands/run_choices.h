// Several answers of `cria run` to one prompt.
#pragma once

#include "engine/session.h"
#include "tools/commands/run_options.h"

namespace cria::tools {

/// Computes options.choices answers at once on one engine, told apart by their seeds: each has the
/// bytes that its seed gives alone. Writes them in the order of their seeds, each as soon as those
/// before it are out. wanted: of the first, with its seed.
void answer_several(const RunOptions& options, const Model& model, RunPrompt& prompt,
                    const GenerateOptions& wanted);

}  // namespace cria::tools
