// The architectures: table.cpp has a row for each, a file per family builds their layers.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "model/config.h"
#include "model/weights.h"

namespace cria {

class Adapters;
class ModelBuilder;

/// One architecture.
struct Architecture {
  std::string_view name;  ///< general.architecture: also the prefix of its metadata keys
  RopeStyle rope;         ///< pairs of values that RoPE rotates
  NormKind norm;          ///< kind of all norms; it also decides which key has their epsilon
  void (*build)(ModelBuilder& model);  ///< keys, tensor names and layers -> graph
  bool mixed = false;                  ///< some layers lack attention or a feed-forward part
};
std::span<const Architecture> architectures() noexcept;
const Architecture* find_architecture(std::string_view name) noexcept;
/// Throws Error listing the known architectures.
const Architecture& architecture_of(const GgufFile& file);

/// The common hyper-parameters. Throws Error that names the key at fault; also for an unknown
/// architecture.
ModelConfig read_config(const GgufFile& file);

/// The part of a model that a graph computes.
enum class GraphPart : std::uint8_t {
  Trunk,
  /// The first of the layers that predict further tokens (nextn_predict_layers). Row t takes token
  /// t + 1 and the trunk's hidden state of position t, and gives logits of token t + 2.
  Prediction,
};

/// A graph and what was ignored in the file.
struct BuiltGraph {
  Graph graph;                                        ///< with views of the file's tensors
  std::vector<std::string> warnings;                  ///< one line each
  std::set<std::string, std::less<>> unused_tensors;  ///< names, including ignored tensors
  std::set<std::string, std::less<>> keys_read;  ///< without the prefix, including missing keys
};
/// Throws Error naming the key or tensor at fault: missing, of a wrong type or shape, or
/// unsupported; also for adapters that cannot be applied at run time. Adapters may be null. All
/// arguments outlive the graph.
BuiltGraph build_graph(const GgufFile& file, const ModelConfig& config, const KernelSet& kernels,
                       const Adapters* adapters = nullptr);

/// Returns the name of the tensor that every prediction layer has, of the first such layer; empty
/// if the file says that it has none.
std::string prediction_tensor(const GgufFile& file, const ModelConfig& config);
/// Returns GraphPart::Prediction. Throws Error as build_graph() does.
Graph build_prediction(const GgufFile& file, const ModelConfig& config, const KernelSet& kernels);

/// Every tensor of a model with these metadata, with the prediction layer if its tensor is known.
/// known: as for WantedTensors. Throws Error as
/// build_graph() does.
std::deque<WantedTensors::Wanted> wanted_tensors(const GgufFile& metadata,
                                                 WantedTensors::Known known);

}  // namespace cria
