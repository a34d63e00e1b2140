// Of the model's file a rank reads from the disk, and has in memory, little more than its own rows.
#pragma once

#include "engine/execute/graph_parts.h"

namespace cria {

class Model;

/// From now on what is touched is read, and nothing around it. Does nothing where the file is not
/// mapped.
void read_nothing_ahead(const Model& model);
/// Asks for these rows, and no page beyond them; most are still being read when it returns.
void read_own_rows(const Model& model, const Graph& graph, const GraphParts& parts);

}  // namespace cria
