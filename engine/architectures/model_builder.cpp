#include "engine/architectures/model_builder.h"

#include <cmath>
#include <cstring>

namespace cria {

ModelBuilder::ModelBuilder(const Architecture& architecture, const ModelConfig& model_config,
                           Keys& model_keys, Weights& model_weights, GraphBuilder& builder,
                           GraphPart part)
    : config(model_config),
      keys(model_keys),
      weights(model_weights),
      graph(builder),
      x(builder.value("x", model_config.n_embd)),
      n_layers(model_config.n_layers),
      architecture_(architecture),
      part_(part) {}

void ModelBuilder::embed(float scale) {
  embedding_scale_ = scale;
  if (!predicts()) add_embedding("token_embd.weight");
}

void ModelBuilder::add_embedding(const std::string& table) {
  const TensorView& rows = weights.matrix(table, config.n_embd, config.n_vocab);
  graph.add(EmbedOp{{}, embedding_scale_}, "token_embd", kNoValue, x,
            {Matrix{rows, {}, {}, weights.scale(table, config.n_vocab)}});
}

void ModelBuilder::decoder(const LayerBlock& one) {
  decoder([&](std::uint32_t) {
    attention(norm("attn_norm"), one.attention);
    const ValueId in = norm(one.ffn_norm);
    if (one.experts)
      experts_or_feed_forward(in, *one.experts, one.feed_forward);
    else
      feed_forward(in, one.feed_forward);
  });
}

// Model::load() says which of them are used.
void ModelBuilder::leave_out_prediction() {
  n_layers -= keys.get_or("nextn_predict_layers", 0, 0, config.n_layers - 1);
  for (std::uint32_t i = n_layers; i < config.n_layers; ++i)
    weights.ignore("blk." + std::to_string(i) + ".", "");
}

std::string ModelBuilder::own_or(const std::string& own, const std::string& usual) const {
  const std::string name = "blk." + std::to_string(n_layers) + ".nextn." + own + ".weight";
  return predicts() && weights.has(name) ? name : usual + ".weight";
}

void ModelBuilder::begin_prediction() {
  const std::size_t n = config.n_embd;
  add_embedding(own_or("embed_tokens", "token_embd"));
  const ValueId hidden = graph.value("hidden", n), both = graph.value("hidden_both", 2 * n);
  graph.set_input(hidden);
  graph.add(TakeOp{{}, 1, n, 0, 0, 0}, "nextn.take", norm("nextn.enorm"), both);
  graph.add(TakeOp{{}, 1, n, 0, 0, n}, "nextn.take", norm("nextn.hnorm", hidden, "norm"), both);
  graph.add(MatMulOp{}, "nextn.eh_proj", both, x, {matrix("nextn.eh_proj", 2 * n, n)});
}

void ModelBuilder::encoder() {
  causal = false;
  if (keys.flag_or("attention.causal", false))
    keys.fail("attention.causal", "an encoder attends both ways: expected false");
}

ValueId ModelBuilder::output_norm() {
  NormSpec spec{architecture_.norm, config.norm_eps, config.n_embd, false, {}, {}, false};
  if (norm_weights)
    spec.weight = weights.vector(own_or("shared_head_norm", final_norm), config.n_embd);
  if (weights.has("output_norm.bias") && (rms_bias || architecture_.norm == NormKind::Layer))
    spec.bias = weights.vector("output_norm.bias", config.n_embd);
  const ValueId normed = graph.value("norm", config.n_embd);
  graph.add(NormOp{{}, spec}, "output_norm", x, normed);
  return normed;
}

// cls.output of the hidden states, or of tanh(cls·hidden + bias).
void ModelBuilder::vectors(ValueId hidden) {
  const auto shape = weights.shape_of("cls.output.weight");
  if (!shape) return graph.set_outputs(Head::None, hidden, kNoValue, causal);
  const auto product = [&](const std::string& name, ValueId in, ValueId out, float softcap) {
    const std::uint64_t rows = graph.width(out);
    const TensorView& weight = weights.matrix(name + ".weight", graph.width(in), rows);
    std::optional<TensorView> bias;
    if (weights.has(name + ".bias")) bias = weights.vector(name + ".bias", rows);
    graph.add(MatMulOp{{}, false, 1, softcap}, name, in, out, {graph.matrix(weight, bias)});
  };
  ValueId in = hidden;
  if (weights.has("cls.weight")) {
    in = graph.value("cls", graph.width(hidden));
    product("cls", hidden, in, 1);
  }
  const ValueId labels = graph.value("labels", shape->size() < 2 ? 1 : shape->back());
  product("cls.output", in, labels, 0);
  graph.set_outputs(Head::Labels, hidden, labels, causal);
}

void ModelBuilder::output(float scale, float softcap) {
  const ValueId normed = output_norm();
  if (weights.has("cls.output.weight")) {
    weights.ignore("output.", "a model with a classifier predicts no tokens");
    return vectors(normed);
  }
  const std::string name =
      own_or("shared_head_head", weights.has("output.weight") ? "output" : "token_embd");
  const TensorView& tensor = weights.matrix(name, config.n_embd, config.n_vocab);
  std::optional<TensorView> bias;
  if (weights.has("output.bias")) bias = weights.vector("output.bias", config.n_vocab);
  Matrix m = graph.matrix(tensor, bias);
  m.scale = weights.scale(name, config.n_vocab);
  const ValueId logits = graph.value("logits", config.n_vocab);
  graph.add(MatMulOp{{}, false, scale, softcap}, "output", normed, logits, {std::move(m)});
  graph.set_outputs(Head::Vocabulary, normed, logits, causal);
}

Matrix ModelBuilder::matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                            bool bias) {
  Matrix m = unscaled_matrix(name, cols, rows, bias);
  m.scale = weights.scale(prefix() + name + ".weight", rows);
  return m;
}

Matrix ModelBuilder::stacked_matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                                    std::uint64_t n) {
  const std::string tensor = prefix() + name + ".weight";
  Matrix m = graph.matrix(weights.matrices(tensor, cols, rows, n));
  m.scale = weights.scale(tensor, rows, n);
  return m;
}

Matrix ModelBuilder::unscaled_matrix(const std::string& name, std::uint64_t cols,
                                     std::uint64_t rows, bool bias) {
  const TensorView& weight = weights.matrix(prefix() + name + ".weight", cols, rows);
  const std::string bias_name = prefix() + name + ".bias";
  if (!bias || !weights.has(bias_name)) return graph.matrix(weight);
  return graph.matrix(weight, weights.vector(bias_name, rows));
}

const TensorView& ModelBuilder::vector(const std::string& name, std::uint64_t length) {
  return weights.vector(prefix() + name, length);
}

float ModelBuilder::number(const std::string& name) {
  float value = 0;
  std::memcpy(&value, vector(name, 1).data, sizeof value);
  if (!std::isfinite(value))
    weights.fail("bad number: expected a finite number, got " + number_text(value),
                 prefix() + name);
  return value;
}

NormSpec ModelBuilder::norm_spec(const std::string& name, std::size_t width, bool weighted) {
  NormSpec spec{architecture_.norm, config.norm_eps, width, false, {}, {}, false};
  if (!weighted) return spec;
  spec.weight = vector(name + ".weight", width);
  const std::string bias = prefix() + name + ".bias";
  if (weights.has(bias) && (rms_bias || architecture_.norm == NormKind::Layer))
    spec.bias = weights.vector(bias, width);
  return spec;
}

ValueId ModelBuilder::norm(const std::string& name, ValueId in, const std::string& value) {
  const std::size_t width = graph.width(in);
  const ValueId out = graph.value(value, width);
  graph.add(NormOp{{}, norm_spec(name, width, norm_weights)}, name, in, out);
  return out;
}

void ModelBuilder::add_norm(const std::string& name, ValueId in, ValueId out) {
  graph.add(NormOp{{}, norm_spec(name, graph.width(in), norm_weights), true}, name, in, out);
}

ValueId ModelBuilder::product(const std::string& name, const Matrix& matrix, ValueId in,
                              const std::string& value, bool by_all) {
  const ValueId out = graph.value(value, matrix.weight.rows());
  MatMulOp op;
  op.by_all = by_all;
  graph.add(op, name, in, out, {matrix});
  return out;
}

void ModelBuilder::add_scaled(const std::string& name, ValueId in, ValueId out, float scale) {
  graph.add(AddOp{{}, scale}, name, in, out);
}

void ModelBuilder::join(const std::string& name, ValueId in, const Branch& branch) {
  if (branch.post_norm.empty()) return add_scaled(name, in, x, branch.scale);
  add_norm(std::string(branch.post_norm), in, x);
}

void ModelBuilder::join(const std::string& name, const Matrix& matrix, ValueId in,
                        const Branch& branch) {
  if (branch.post_norm.empty() && branch.scale == 1 && !matrix.scale)
    return graph.add(MatMulOp{{}, true}, name, in, x, {matrix});
  join(name + "_add", product(name, matrix, in, "branch"), branch);
}

RopeSpec ModelBuilder::rope_spec() {
  RopeSpec spec = RopeSpec::of(config);
  const std::uint64_t pairs = config.n_rot / 2;
  if (weights.has("rope_freqs.weight")) spec.divisors = weights.factors("rope_freqs.weight", pairs);
  const bool factors = weights.has("rope_factors_long.weight");
  if (spec.scaling == RopeScaling::LongRope && !factors &&
      !weights.has("rope_factors_short.weight")) {
    weights.note("rope.scaling.type is longrope, but the file has no factors: nothing is scaled");
    spec.scaling = RopeScaling::None;
  }
  if (factors || spec.scaling == RopeScaling::LongRope) {
    spec.scaling = RopeScaling::LongRope;
    spec.magnitude = config.rope_attn_factor;
    spec.divisors = weights.factors("rope_factors_short.weight", pairs);
    spec.long_divisors = weights.factors("rope_factors_long.weight", pairs);
  }
  return spec;
}

std::uint32_t ModelBuilder::window_rope(float base, bool scaled) {
  RopeSpec spec = rope_spec();
  spec.base = keys.positive_or("rope.freq_base_swa", base == 0 ? config.rope_base : base);
  if (!scaled) {
    spec.scaling = RopeScaling::None;
    spec.factor = spec.magnitude = 1;
  }
  return graph.rope(spec);
}

std::uint32_t ModelBuilder::window(std::uint32_t fallback) {
  const auto length = [&] { return keys.get("attention.sliding_window", 1, limits::kContext); };
  return fallback != 0 && !keys.has("attention.sliding_window") ? fallback : length();
}

std::uint32_t ModelBuilder::window_if_any(std::uint32_t fallback) {
  return keys.get_or("attention.sliding_window", fallback, 0, limits::kContext);
}

std::vector<bool> ModelBuilder::windowed(std::uint32_t period) {
  return windowed_layers(keys, config.n_layers, period);
}

}  // namespace cria
