// What is to blame when a node of the graph computes a value that is no finite number.
#pragma once

#include <span>

#include "engine/graph/graph.h"
#include "model/error.h"
#include "model/gguf/gguf.h"

namespace cria {

/// The Error that names the node and, of the tensors that it reads, the first with such a value and
/// its index; all of them where all hold finite numbers. Attention has no tensors: where one of the
/// node before it is bad, whose keys and values it reads, that is to blame. values: what the node
/// computed. Looks at every value of the tensors.
Error not_finite(const GgufFile& file, const Graph& graph, const Node& node,
                 std::span<const float> values);

}  // namespace cria
