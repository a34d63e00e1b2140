#include "engine/graph.h"

#include "engine/layer.h"

namespace cria {
namespace {

constexpr std::array<std::string_view, 7> kOpNames{"embed",      "rms_norm",     "qkv_rope", "attention",
                                                   "matmul_add", "gate_up_silu", "matmul"};
constexpr std::array<std::string_view, kValueCount> kValueNames{"tokens", "x",    "norm", "q",  "k",
                                                                "v",      "attn", "ffn",  "up", "logits"};

std::string describe(const TensorView& tensor) {
  return std::string(tensor.name) + " " + std::string(name(tensor.dtype)) + tensor.shape_string();
}

std::string outputs(const Node& node) {
  std::string text(name(node.out));
  if (node.op == Op::QkvRope) text += ", kv cache";
  if (node.acts.has(ActType::BF16)) text += "+bf16";
  if (node.acts.has(ActType::Q8x32)) text += "+q8x32";
  if (node.acts.has(ActType::Q8x256)) text += "+q8x256";
  return text;
}

}  // namespace

std::string_view name(Op op) noexcept { return kOpNames[static_cast<std::size_t>(op)]; }
std::string_view name(ValueId value) noexcept { return kValueNames[static_cast<std::size_t>(value)]; }

std::uint64_t Node::macs() const {
  std::uint64_t sum = 0;
  for (const Matrix& m : matrices) {
    if (m.kernel.run != nullptr) sum += m.weight->rows() * m.weight->cols();
  }
  return sum;
}

std::uint64_t Node::weight_bytes() const {
  std::uint64_t sum = 0;
  for (const Matrix& m : matrices) {
    if (m.kernel.run != nullptr) sum += m.weight->bytes;
  }
  return sum;
}

std::string Node::to_string() const {
  std::string text =
      name + ": " + std::string(cria::name(op)) + " " + outputs(*this) + " <- " + std::string(cria::name(in));
  if (op == Op::Attention) text += ", kv cache " + std::to_string(layer);
  if (norm != nullptr) text += ", " + describe(*norm);
  for (const Matrix& m : matrices) {
    text += ", " + describe(*m.weight);
    if (m.bias != nullptr) text += ", " + describe(*m.bias);
  }
  return text;
}

std::string Graph::to_string() const {
  std::string text;
  for (const Node& node : nodes) text += node.to_string() + "\n";
  return text;
}

Graph Graph::build(const LlamaConfig& config, const LlamaWeights& weights, const KernelSet& kernels) {
  GraphBuilder graph(config, kernels);
  graph.embed("token_embd", weights.token_embd);
  for (std::uint32_t i = 0; i < config.n_layers; ++i) add_layer(graph, i, weights.layers[i]);
  graph.end_layers();
  graph.rms_norm("output_norm", weights.output_norm, {weights.output});
  graph.matmul("output", ValueId::Norm, weights.output);
  return graph.finish();
}

}  // namespace cria
