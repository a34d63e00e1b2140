#include "engine/execute/non_finite.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace cria {
namespace {

std::vector<TensorView> tensors_of(const Node& node) {
  std::vector<TensorView> tensors;
  const auto add = [&tensors](const std::optional<TensorView>& tensor) {
    if (tensor) tensors.push_back(*tensor);
  };
  for (const std::optional<NormSpec>& norm :
       {std::optional(node.norm), node.heads.q_norm, node.heads.k_norm, node.heads.v_norm}) {
    if (!norm) continue;
    add(norm->weight);
    add(norm->bias);
  }
  for (const Matrix& matrix : node.matrices) {
    add(matrix.weight);
    add(matrix.scale);
    add(matrix.bias);
  }
  add(node.attention.sinks);
  add(node.experts.selection_bias);
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
  const bool attention = node.op == Op::Attention;
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
