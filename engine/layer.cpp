#include "engine/layer.h"

#include <algorithm>

namespace cria {

void add_layer(GraphBuilder& graph, std::uint32_t layer, const LayerWeights& w) {
  graph.begin_layer(layer);
  graph.rms_norm("attn_norm", w.attn_norm, {w.q, w.k, w.v});
  graph.qkv_rope("attn_qkv", w);
  graph.attention("attn", w.o);
  graph.matmul_add("attn_output", ValueId::Attn, w.o, w.o_bias);
  graph.rms_norm("ffn_norm", w.ffn_norm, {w.gate, w.up});
  graph.gate_up_silu("ffn_gate_up", w);
  graph.matmul_add("ffn_down", ValueId::Ffn, w.down, nullptr);
}

GraphBuilder::GraphBuilder(const LlamaConfig& config, const KernelSet& kernels) : kernels_(kernels) {
  std::size_t widest_kv[2] = {0, 0};
  for (std::uint32_t i = 0; i < config.n_layers; ++i) {
    widest_kv[0] = std::max<std::size_t>(widest_kv[0], config.k_dim(i));
    widest_kv[1] = std::max<std::size_t>(widest_kv[1], config.v_dim(i));
  }
  const auto width = [this](ValueId id, std::size_t n) { graph_.width[static_cast<std::size_t>(id)] = n; };
  width(ValueId::X, config.n_embd);
  width(ValueId::Norm, config.n_embd);
  width(ValueId::Q, config.q_dim());
  width(ValueId::K, widest_kv[0]);
  width(ValueId::V, widest_kv[1]);
  width(ValueId::Attn, std::size_t{config.n_heads} * config.head_dim_v);
  width(ValueId::Ffn, config.n_ff);
  width(ValueId::Up, config.n_ff);
  width(ValueId::Logits, config.n_vocab);
}

void GraphBuilder::begin_layer(std::uint32_t layer) {
  layer_ = layer;
  prefix_ = "blk." + std::to_string(layer) + ".";
}

void GraphBuilder::embed(std::string_view name, const TensorView* table) {
  add(Op::Embed, name, ValueId::None, ValueId::X).matrices = {Matrix{table, nullptr, {}}};
}

void GraphBuilder::rms_norm(std::string_view name, const TensorView* weight,
                            std::initializer_list<const TensorView*> users) {
  Node& node = add(Op::RmsNorm, name, ValueId::X, ValueId::Norm);
  node.norm = weight;
  need(node, users);
}

void GraphBuilder::qkv_rope(std::string_view name, const LayerWeights& w) {
  add(Op::QkvRope, name, ValueId::Norm, ValueId::Q).matrices = {matrix(w.q, w.q_bias), matrix(w.k, w.k_bias),
                                                                matrix(w.v, w.v_bias)};
}

void GraphBuilder::attention(std::string_view name, const TensorView* user) {
  graph_.first_sparse = graph_.nodes.size();  // the last layer's is the one that stays
  need(add(Op::Attention, name, ValueId::Q, ValueId::Attn), {user});
}

void GraphBuilder::gate_up_silu(std::string_view name, const LayerWeights& w) {
  Node& node = add(Op::GateUpSilu, name, ValueId::Norm, ValueId::Ffn);
  node.matrices = {matrix(w.gate), matrix(w.up)};
  need(node, {w.down});
}

void GraphBuilder::matmul_add(std::string_view name, ValueId in, const TensorView* weight,
                              const TensorView* bias) {
  add(Op::MatMulAdd, name, in, ValueId::X).matrices = {matrix(weight, bias)};
}

void GraphBuilder::matmul(std::string_view name, ValueId in, const TensorView* weight) {
  add(Op::MatMul, name, in, ValueId::Logits).matrices = {matrix(weight)};
}

Node& GraphBuilder::add(Op op, std::string_view name, ValueId in, ValueId out) {
  Node& node = graph_.nodes.emplace_back();
  node.op = op;
  node.name = prefix_ + std::string(name);
  node.layer = layer_;
  node.in = in;
  node.out = out;
  return node;
}

Matrix GraphBuilder::matrix(const TensorView* weight, const TensorView* bias) const {
  const Matrix m{weight, bias, kernels_.matmul(weight->dtype)};
  if (m.kernel.run == nullptr) {
    throw Error("",
                "no kernel of instruction set " + std::string(kernels_.isa) + " multiplies by type " +
                    std::string(cria::name(weight->dtype)),
                "tensor " + std::string(weight->name));
  }
  return m;
}

void GraphBuilder::need(Node& node, std::initializer_list<const TensorView*> users) {
  for (const TensorView* user : users) node.acts.add(matrix(user).kernel.act);
  graph_.acts[static_cast<std::size_t>(node.out)].add(node.acts);
}

}  // namespace cria
