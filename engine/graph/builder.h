// Makes a graph node by node: values, kernels, RoPE tables and caches.
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "model/weights.h"

namespace cria {

class Adapters;

class GraphBuilder {
 public:
  /// kernels outlive the graph.
  explicit GraphBuilder(const KernelSet& kernels) : kernels_(kernels) {}

  /// Node names that follow begin so: "blk.3.".
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  /// The value of that name and width; layers share it, as none needs another's.
  ValueId value(const std::string& name, std::size_t width, std::size_t rows_per_token = 1);
  [[nodiscard]] std::size_t width(ValueId id) const { return graph_.values[id].width; }
  /// Index of a table in Graph::ropes; equal ones are made once.
  std::uint32_t rope(const RopeSpec& spec);
  /// Index of a new cache in Graph::caches.
  std::uint32_t cache(const CacheSpec& spec);
  [[nodiscard]] const CacheSpec& cache(std::uint32_t index) const { return graph_.caches[index]; }

  /// Throws Error naming tensor and type if kernels have no product for it.
  [[nodiscard]] Matrix matrix(const TensorView& weight, std::optional<TensorView> bias = {}) const;

  /// A node that the caller fills in.
  Node& add(Op op, std::string_view name, ValueId in, ValueId out);

  /// Lets the products that adapters add be computed. Throws Error naming the tensor for matrices
  /// that are not multiplied in one piece. file: the model's, of which the matrices are views.
  void adapt(const Adapters& adapters, const GgufFile& file);

  /// Decides which forms of values are needed and which tokens. The builder is empty afterwards.
  Graph finish();

 private:
  void need_forms();

  Graph graph_;
  const KernelSet& kernels_;
  std::string prefix_;
};

}  // namespace cria
