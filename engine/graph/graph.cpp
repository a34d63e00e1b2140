#include "engine/graph/graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "model/weights.h"

namespace cria {

bool ActTypes::quantized() const {
  return std::ranges::any_of(kQuantizedForms, [this](ActType type) { return has(type); });
}

float Matrix::scale_of(std::size_t row) const {
  if (!scale) return 1;
  float value = 0;
  std::memcpy(&value, scale->data + row / (weight.rows() / scale->cols()) * sizeof value,
              sizeof value);
  return value;
}

Matrix rows_of(const Matrix& matrix, std::uint64_t begin, std::uint64_t rows) {
  const auto part_of = [](const TensorView& vector, std::uint64_t first, std::uint64_t length) {
    TensorView part = vector;
    part.shape = {length};
    part.data += first * sizeof(float);
    part.bytes = length * sizeof(float);
    return part;
  };
  Matrix part{rows_of(matrix.weight, begin, rows), {}, matrix.kernel, {}};
  if (matrix.bias) part.bias = part_of(*matrix.bias, begin, rows);
  if (matrix.scale) {
    const std::uint64_t per_scale = matrix.weight.rows() / matrix.scale->cols();
    part.scale = part_of(*matrix.scale, begin / per_scale, per_scale == 1 ? rows : 1);
  }
  return part;
}

namespace {

// Sums a figure over the matrices that a token is multiplied by.
template <class Figure>
std::uint64_t sum_per_token(const Node& node, Figure&& figure) {
  std::uint64_t sum = 0;
  for (const Matrix& m : node.matrices)
    if (m.multiplies()) sum += figure(m.weight);
  return sum / node.facts.group * node.facts.group_used;
}

}  // namespace

UnitRanges UnitRead::columns(const UnitRanges& units) const {
  UnitRanges columns;
  for (const UnitRange& range : units) {
    if (stride == width && repeat == 1 && range.end <= wrap) {
      columns.add({offset + range.begin * width, offset + range.end * width});
      continue;
    }
    for (std::size_t unit = range.begin; unit < range.end; ++unit) {
      const std::size_t first = offset + unit / repeat % wrap * stride;
      columns.add({first, first + width});
    }
  }
  return columns;
}

std::uint64_t Node::macs() const {
  return sum_per_token(*this, [](const TensorView& w) { return w.rows() * w.cols(); });
}

std::uint64_t Node::weight_bytes() const {
  return sum_per_token(*this, [](const TensorView& w) { return w.bytes; });
}

std::vector<ValueId> Node::reads() const {
  std::vector<ValueId> ids = facts.more_reads;
  if (in != kNoValue) ids.push_back(in);
  for (const Matrix& m : matrices)
    if (m.lora) ids.push_back(m.lora->low);
  if (facts.changes_out) ids.push_back(out);
  return ids;
}

std::vector<ValueId> Node::writes() const {
  std::vector<ValueId> ids = facts.more_writes;
  ids.push_back(out);
  return ids;
}

std::string_view name(const Op& op) {
  return std::visit([](const auto& o) { return o.kName; }, op);
}

std::string tensor_text(const TensorView& tensor) {
  return std::string(tensor.name) + " " + std::string(name(tensor.dtype)) + tensor.shape_string();
}

std::string factor_text(float factor) {
  return factor == 1 ? std::string() : ", times " + number_text(factor);
}

std::string norm_text(const NormSpec& norm, std::string_view of) {
  std::string text = ", " + std::string(of) + (norm.kind == NormKind::Rms ? "rms" : "layer") +
                     " norm of " + std::to_string(norm.width) +
                     (norm.first_only ? " first values" : "") + ", eps " + number_text(norm.eps);
  for (const auto& tensor : {norm.weight, norm.bias})
    if (tensor) text += ", " + tensor_text(*tensor);
  return text;
}

std::string activation_text(const Activation& a) {
  constexpr std::array<std::string_view, 7> kNames{
      "silu", "gelu", "gelu by erf", "relu squared", "xielu", "clamped swiglu", "sigmoid"};
  std::string text(kNames[static_cast<std::size_t>(a.kind)]);
  if (a.kind == ActivationKind::Xielu)
    text += " of " + number_text(a.alpha_p) + ", " + number_text(a.alpha_n) + ", " +
            number_text(a.beta) + ", " + number_text(a.eps);
  return text;
}

namespace {

std::string describe_matrices(const Node& node) {
  std::string text;
  const std::size_t n = node.facts.group;
  for (std::size_t i = 0; i < node.matrices.size();
       i += n) {  // the first of a group stands for all
    const Matrix& m = node.matrices[i];
    text += ", " + (n > 1 ? std::to_string(n) + " times " : "") + tensor_text(m.weight);
    if (m.scale) text += ", times " + tensor_text(*m.scale);
    if (m.bias) text += ", " + tensor_text(*m.bias);
    if (m.lora) text += ", lora of rank " + std::to_string(m.lora->b.cols());
  }
  return text;
}

}  // namespace

std::string Graph::to_string(const Node& node, bool forms) const {
  std::string text = node.name + ": " + std::string(cria::name(node.op)) + " " +
                     values[node.out].name + node.facts.outputs;
  for (const auto& [type, suffix] : {std::pair{ActType::BF16, "+bf16"},
                                     {ActType::Q8x16, "+q8x16"},
                                     {ActType::Q8x32, "+q8x32"},
                                     {ActType::Q8x256, "+q8x256"}})
    if (forms && node.acts.has(type)) text += suffix;
  text += " <- ";
  if (node.in != kNoValue) text += values[node.in].name;
  return text + node.facts.inputs + node.facts.text + describe_matrices(node);
}

std::size_t Graph::rollback() const {
  std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const StateSpec& state : states) most = std::min(most, state.rollback);
  return most;
}

std::string Graph::to_string(bool forms) const {
  std::string text;
  for (const Node& node : nodes) text += to_string(node, forms) + "\n";
  return text;
}

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

std::uint32_t GraphBuilder::state(const StateSpec& spec) {
  graph_.states.push_back(spec);
  return static_cast<std::uint32_t>(graph_.states.size() - 1);
}

Matrix GraphBuilder::matrix(const TensorView& weight, std::optional<TensorView> bias) const {
  Matrix m{weight, std::move(bias), kernels_.matmul(weight.dtype), {}};
  if (!m.multiplies()) {
    throw Error("",
                "no kernel of instruction set " + std::string(kernels_.isa) +
                    " multiplies by type " + std::string(cria::name(weight.dtype)),
                "tensor " + std::string(weight.name));
  }
  return m;
}

void GraphBuilder::add(Op op, std::string_view name, ValueId in, ValueId out,
                       std::vector<Matrix> matrices) {
  Node node{std::move(op), prefix_ + std::string(name), in, out, std::move(matrices)};
  node.facts = node.visit([&](const auto& o) { return o.facts(graph_, node); });
  graph_.nodes.push_back(std::move(node));
}

// The last writer of a value before a product reads it makes the form that the product needs.
void GraphBuilder::add_forms() {
  std::vector<Node*> writer(graph_.values.size(), nullptr);
  for (Node& node : graph_.nodes) {
    for (const Matrix& m : node.matrices) {
      if (!m.multiplies() || node.facts.quantizes_input) continue;
      const auto add = [&](ValueId id, ActType act) {
        graph_.values[id].acts.add(act);
        if (writer[id] != nullptr) writer[id]->acts.add(act);
      };
      add(node.in, m.kernel.act);
      if (m.lora) add(m.lora->low, m.lora->kernel.act);
    }
    for (const ValueId id : node.writes()) writer[id] = &node;
  }
}

void GraphBuilder::set_outputs(Head head, ValueId hidden, ValueId logits, bool causal) {
  graph_.head = head;
  graph_.hidden = hidden;
  graph_.logits = logits;
  graph_.causal = causal;
}

Graph GraphBuilder::finish() {
  add_forms();
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (graph_.nodes[i].facts.fills_cache) graph_.first_sparse = i + 1;
  return std::move(graph_);
}

namespace {

std::vector<TensorView> tensors_of(const Node& node) {
  std::vector<TensorView> tensors = node.facts.tensors;
  for (const Matrix& m : node.matrices)
    for (const auto& tensor : {std::optional(m.weight), m.scale, m.bias})
      if (tensor) tensors.push_back(*tensor);
  return tensors;
}

struct BadValue {
  std::uint64_t index;
  float value;
};

std::optional<BadValue> first_bad(const TensorView& tensor) {
  std::vector<float> row(tensor.cols());
  for (std::uint64_t r = 0; r < tensor.rows(); ++r) {
    dtype_info(tensor.dtype)
        .dequantize(tensor.data + r * tensor.row_bytes(), row.data(), row.size());
    const auto bad =
        std::find_if(row.begin(), row.end(), [](float value) { return !std::isfinite(value); });
    if (bad != row.end())
      return BadValue{r * row.size() + static_cast<std::uint64_t>(bad - row.begin()), *bad};
  }
  return std::nullopt;
}

}  // namespace

Error not_finite(const GgufFile& file, const Graph& graph, const Node& node,
                 std::span<const float> values) {
  const bool attention = node.as<AttentionOp>() != nullptr;
  const Node& reader =
      attention ? graph.nodes[static_cast<std::size_t>(&node - graph.nodes.data()) - 1] : node;
  std::string all = "node " + node.name;
  for (const TensorView& tensor : tensors_of(reader)) {
    const std::string name = ", tensor " + std::string(tensor.name);
    if (!attention) all += name;
    if (const auto bad = first_bad(tensor))
      return file.error("a weight is not a finite number: expected finite values, got " +
                            number_text(bad->value) + " at value " + std::to_string(bad->index),
                        "node " + reader.name + name);
  }
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return file.error(
      "a result is not a finite number though the node's weights are: expected finite values, "
      "got " +
          number_text(bad == values.end() ? std::nanf("") : *bad),
      all);
}

}  // namespace cria
