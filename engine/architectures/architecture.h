// The architectures that run here: one row each in table.cpp, described by one file per family.
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
struct HfForm;

/// What distinguishes one architecture from another.
struct Architecture {
  std::string_view name;  ///< general.architecture: also the prefix of its metadata keys
  RopeStyle rope;         ///< which values of a head are rotated together
  NormKind norm;          ///< of all its norms; also which key has their epsilon
  void (*build)(
      ModelBuilder& model);  ///< keys -> parameters, tensor names -> weights, layers -> nodes
  void (*hf)(std::vector<HfForm>& forms) =
      nullptr;  ///< adds how its models lie in Hugging Face's directories
};
std::span<const Architecture> architectures() noexcept;
const Architecture* find_architecture(std::string_view name) noexcept;
/// Throws Error that names those that are known.
const Architecture& architecture_of(const GgufFile& file);

/// The common hyper-parameters. Throws Error that names the key at fault; also for an unknown
/// architecture.
ModelConfig read_config(const GgufFile& file);

/// A graph and what was tolerated while it was built.
struct BuiltGraph {
  Graph graph;                                        ///< with views of the file's tensors
  std::vector<std::string> warnings;                  ///< tensors that are not used and the like
  std::set<std::string, std::less<>> unused_tensors;  ///< by name, also those that are ignored
  std::set<std::string, std::less<>>
      keys_read;  ///< without the prefix, also those that the file lacks
};
/// Throws Error naming the key or tensor at fault: missing, of a wrong type or shape, or not
/// supported here. Adapters may be null; also for those that cannot be applied while the model
/// runs. All outlive the graph.
BuiltGraph build_graph(const GgufFile& file, const ModelConfig& config, const KernelSet& kernels,
                       const Adapters* adapters = nullptr);

/// Every tensor that a model of these metadata has. known: WantedTensors'. Throws Error as
/// build_graph() does.
std::deque<WantedTensors::Wanted> wanted_tensors(const GgufFile& metadata,
                                                 WantedTensors::Known known);

}  // namespace cria
