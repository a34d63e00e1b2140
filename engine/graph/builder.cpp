#include "engine/graph/builder.h"

#include <algorithm>
#include <utility>

namespace cria {

ValueId GraphBuilder::value(const std::string& name, std::size_t width, std::size_t rows_per_token) {
  const auto found = std::find_if(graph_.values.begin(), graph_.values.end(), [&](const ValueInfo& value) {
    return value.name == name && value.width == width && value.rows_per_token == rows_per_token;
  });
  if (found != graph_.values.end()) return static_cast<ValueId>(found - graph_.values.begin());
  graph_.values.push_back({name, width, rows_per_token, {}});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

std::uint32_t GraphBuilder::rope(const RopeSpec& spec) {
  const auto found = std::find_if(graph_.ropes.begin(), graph_.ropes.end(),
                                  [&](const RopeTable& table) { return table.spec() == spec; });
  if (found != graph_.ropes.end()) return static_cast<std::uint32_t>(found - graph_.ropes.begin());
  graph_.ropes.emplace_back(spec);
  return static_cast<std::uint32_t>(graph_.ropes.size() - 1);
}

std::uint32_t GraphBuilder::cache(const CacheSpec& spec) {
  graph_.caches.push_back(spec);
  return static_cast<std::uint32_t>(graph_.caches.size() - 1);
}

Matrix GraphBuilder::matrix(const TensorView& weight, std::optional<TensorView> bias) const {
  Matrix m{weight, std::move(bias), kernels_.matmul(weight.dtype), {}};
  if (m.kernel.run == nullptr) {
    throw Error("",
                "no kernel of instruction set " + std::string(kernels_.isa) + " multiplies by type " +
                    std::string(cria::name(weight.dtype)),
                "tensor " + std::string(weight.name));
  }
  return m;
}

Node& GraphBuilder::add(Op op, std::string_view name, ValueId in, ValueId out) {
  Node& node = graph_.nodes.emplace_back();
  node.op = op;
  node.name = prefix_ + std::string(name);
  node.in = in;
  node.out = out;
  return node;
}

// Who wrote a value last before a product reads it makes the form that the product wants. Products of single
// heads quantize their own parts.
void GraphBuilder::need_forms() {
  std::vector<Node*> writer(graph_.values.size(), nullptr);
  for (Node& node : graph_.nodes) {
    for (const Matrix& m : node.matrices) {
      if (m.kernel.run == nullptr || node.op == Op::HeadProducts) continue;
      graph_.values[node.in].acts.add(m.kernel.act);
      if (writer[node.in] != nullptr) writer[node.in]->acts.add(m.kernel.act);
    }
    for (const ValueId id : node.writes()) writer[id] = &node;
  }
}

Graph GraphBuilder::finish() {
  need_forms();
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.op == Op::Heads && node.heads.k != kNoValue) graph_.first_sparse = i + 1;
  }
  return std::move(graph_);
}

}  // namespace cria
