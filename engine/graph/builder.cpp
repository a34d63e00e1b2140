#include "engine/graph/builder.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/lora/adapters.h"

namespace cria {

ValueId GraphBuilder::value(const std::string& name, std::size_t width,
                            std::size_t rows_per_token) {
  const auto found =
      std::find_if(graph_.values.begin(), graph_.values.end(), [&](const ValueInfo& value) {
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
                "no kernel of instruction set " + std::string(kernels_.isa) +
                    " multiplies by type " + std::string(cria::name(weight.dtype)),
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

// Who wrote a value last before a product reads it makes the form that the product wants. Products
// of single heads quantize their own parts.
void GraphBuilder::need_forms() {
  std::vector<Node*> writer(graph_.values.size(), nullptr);
  for (Node& node : graph_.nodes) {
    for (const Matrix& m : node.matrices) {
      if (m.kernel.run == nullptr || node.op == Op::HeadProducts) continue;
      const auto need = [&](ValueId id, ActType act) {
        graph_.values[id].acts.add(act);
        if (writer[id] != nullptr) writer[id]->acts.add(act);
      };
      need(node.in, m.kernel.act);
      if (m.lora) need(m.lora->low, m.lora->kernel.act);
    }
    for (const ValueId id : node.writes()) writer[id] = &node;
  }
}

void GraphBuilder::adapt(const Adapters& adapters, const GgufFile& file) {
  std::vector<Node> nodes;
  std::set<std::string_view> used;
  for (Node& node : graph_.nodes) {
    std::size_t parts = 0;
    for (Matrix& m : node.matrices) {
      const LowRank* const added = adapters.find(m.weight.name);
      if (added == nullptr) continue;
      if (node.op != Op::MatMul && node.op != Op::Heads && node.op != Op::FeedForward)
        throw file.error(
            "an adapter's addition that cannot be applied here: cria merge writes it into a model",
            "tensor " + std::string(m.weight.name));
      used.insert(m.weight.name);
      Node& low = nodes.emplace_back();
      low.name = node.name + ".lora" + std::to_string(parts);
      low.in = node.in;
      low.out = value("lora" + std::to_string(parts++), added->rank);
      low.matrices = {matrix(added->a_view())};
      const TensorView& whole = *file.tensor(m.weight.name);
      const auto begin = static_cast<std::uint64_t>(m.weight.data - whole.data) / whole.row_bytes();
      const Matrix b = matrix(added->b_view(begin, m.weight.rows()));
      m.lora = LoraProduct{low.out, b.weight, b.kernel};
    }
    nodes.push_back(std::move(node));
  }
  graph_.nodes = std::move(nodes);
  for (const auto& [tensor, added] : adapters.all())
    if (!used.contains(tensor))
      throw file.error("an adapter's addition to a matrix that is not multiplied by",
                       "tensor " + tensor);
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
