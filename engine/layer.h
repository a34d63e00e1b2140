// How a layer becomes nodes.
#pragma once

#include <initializer_list>
#include <string>

#include "engine/graph.h"

namespace cria {

/// Appends named steps to a graph and looks up the kernels they need.
class GraphBuilder {
 public:
  GraphBuilder(const LlamaConfig& config, const KernelSet& kernels);

  /// Names that follow begin with "blk.LAYER.".
  void begin_layer(std::uint32_t layer);
  void end_layers() { prefix_.clear(); }

  void embed(std::string_view name, const TensorView* table);
  /// users: the matrices that read the norm, which decide the forms it is quantized to.
  void rms_norm(std::string_view name, const TensorView* weight,
                std::initializer_list<const TensorView*> users);
  void qkv_rope(std::string_view name, const LayerWeights& w);
  void attention(std::string_view name, const TensorView* user);
  void gate_up_silu(std::string_view name, const LayerWeights& w);
  void matmul_add(std::string_view name, ValueId in, const TensorView* weight, const TensorView* bias);
  void matmul(std::string_view name, ValueId in, const TensorView* weight);

  Graph finish() { return std::move(graph_); }

 private:
  Node& add(Op op, std::string_view name, ValueId in, ValueId out);
  [[nodiscard]] Matrix matrix(const TensorView* weight, const TensorView* bias = nullptr) const;
  void need(Node& node, std::initializer_list<const TensorView*> users);

  Graph graph_;
  const KernelSet& kernels_;
  std::string prefix_;
  std::uint32_t layer_ = 0;
};

/// The forward pass of one layer.
void add_layer(GraphBuilder& graph, std::uint32_t layer, const LayerWeights& w);

}  // namespace cria
