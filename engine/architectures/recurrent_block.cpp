// Recurrent layers: short convolutions, the gated delta rule, KDA, Mamba-2 and Mamba-1.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

// The makers' and all engines' constant in the norm of keys and queries.
constexpr float kKeyNormEps = 1e-6F;

Matrix part_of(const Matrix& m, std::uint64_t& first, std::uint64_t rows) {
  first += rows;
  return rows_of(m, first - rows, rows);
}

}  // namespace

ModelBuilder::StateSpace ModelBuilder::state_space() {
  StateSpace s{};
  s.taps = keys.get("ssm.conv_kernel", 1, limits::kConvolution);
  s.inner = keys.get("ssm.inner_size", 1, limits::kFeedForward);
  s.state = keys.get("ssm.state_size", 1, limits::kStateSize);
  s.heads = keys.get("ssm.time_step_rank", 1, limits::kFeedForward);
  s.groups = keys.get_or("ssm.group_count", 1, 1, limits::kFeedForward);
  return s;
}

void ModelBuilder::require_divisor(const char* key, std::uint64_t part, std::uint64_t whole) const {
  if (whole % part != 0)
    keys.fail(key, "does not divide what it is a part of: expected a divisor of " +
                       std::to_string(whole) + ", got " + std::to_string(part));
}

void ModelBuilder::convolve(const std::string& name, ConvolutionOp op, ValueId in, ValueId out) {
  // Other programs give the weights of queries, keys and values a dimension of 1.
  const bool of_part = name.starts_with("ssm_conv1d_");
  op.weights =
      weights.values(prefix() + name + ".weight", of_part ? Weights::Shape{op.taps, 1, op.channels}
                                                          : Weights::Shape{op.taps, op.channels});
  if (const std::string bias = prefix() + name + ".bias"; weights.has(bias))
    op.bias = weights.vector(bias, op.channels);
  op.state = graph.state(op.state_spec());
  graph.add(op, name, in, out);
}

void ModelBuilder::convolve(const std::string& name, std::uint32_t taps, ValueId in, ValueId out,
                            std::size_t out_offset) {
  ConvolutionOp op;
  op.channels = graph.width(in);
  op.taps = taps;
  op.silu = true;
  op.out_offset = out_offset;
  convolve(name, op, in, out);
}

void ModelBuilder::decay(std::uint64_t heads, std::uint64_t per_head, const Weights::Shape& a,
                         ValueId steps, ValueId out, ValueId dt) {
  DecayOp op;
  op.heads = heads;
  op.per_head = per_head;
  op.bias = vector("ssm_dt.bias", heads * per_head);
  op.a = weights.values(prefix() + "ssm_a", a);
  op.dt = dt;
  graph.add(op, "ssm_decay", steps, out);
}

void ModelBuilder::recur(RecurrenceOp op, ValueId in, ValueId out) {
  op.state = graph.state(op.state_spec());
  graph.add(op, "ssm", in, out);
}

void ModelBuilder::gated_output(const std::string& name, ActivationKind act, std::uint32_t head,
                                ValueId sums, ValueId gate) {
  graph.add(NormOp{{}, norm_spec("ssm_norm", head)}, "ssm_norm", sums, sums);
  graph.add(GateMulOp{{}, {act}, 0}, "ssm_gate", sums, gate);
  join(name, matrix(name, graph.width(gate), config.n_embd), gate, {});
}

void ModelBuilder::short_convolution(ValueId in) {
  const std::uint32_t n = config.n_embd;
  ConvolutionOp op;
  op.channels = n;
  op.taps = keys.get("shortconv.l_cache", 1, limits::kConvolution);
  op.in_offset = std::size_t{2} * n;
  op.factor = 0;
  op.out_factor = n;
  const ValueId parts =
                    product("shortconv.in_proj",
                            matrix("shortconv.in_proj", n, std::uint64_t{3} * n), in, "conv_in"),
                out = graph.value("conv_out", n);
  convolve("shortconv.conv", op, parts, out);
  join("shortconv.out_proj", matrix("shortconv.out_proj", n, n), out, {});
}

void ModelBuilder::delta_rule(ValueId in, bool in_turn) {
  const StateSpace s = state_space();
  require_divisor("ssm.time_step_rank", s.heads, s.inner);
  require_divisor("ssm.group_count", s.groups, s.heads);
  const std::uint64_t key = s.state, value = s.inner / s.heads, repeat = s.heads / s.groups,
                      keys_width = s.groups * key, width = 2 * keys_width + s.inner;
  RecurrenceOp op;
  op.heads = s.heads;
  op.key_dim = key;
  op.value_dim = value;
  op.key_heads = s.groups;
  op.key_repeat = in_turn ? 1 : repeat;
  op.delta = true;
  op.norm_eps = kKeyNormEps;
  op.q_scale = 1 / std::sqrt(static_cast<float>(key));
  op.k_offset = keys_width;
  op.v_offset = 2 * keys_width;
  const ValueId mixed = graph.value("ssm_qkv", width), gate = graph.value("ssm_z", s.inner);
  const auto take = [&](const char* name, ValueId from, ValueId to, std::size_t length,
                        std::size_t stride, std::size_t in_offset, std::size_t out_offset) {
    graph.add(TakeOp{{}, s.groups, length, stride, in_offset, out_offset}, name, from, to);
  };
  if (has("ssm_in")) {  // old files: by key head its query, key, values and gates
    const std::uint64_t v = repeat * value, stride = 2 * key + 2 * v;
    const ValueId all =
        product("ssm_in", matrix("ssm_in", config.n_embd, s.groups * stride), in, "ssm_in");
    take("ssm_in_q", all, mixed, key, stride, 0, 0);
    take("ssm_in_k", all, mixed, key, stride, key, op.k_offset);
    take("ssm_in_v", all, mixed, v, stride, 2 * key, op.v_offset);
    take("ssm_in_z", all, gate, v, stride, 2 * key + v, 0);
  } else {
    product("attn_qkv", matrix("attn_qkv", config.n_embd, width), in, "ssm_qkv");
    product("attn_gate", matrix("attn_gate", config.n_embd, s.inner), in, "ssm_z");
  }
  const ValueId steps = graph.value("ssm_alpha", s.heads);
  op.beta = graph.value("ssm_beta", s.heads);
  if (has("ssm_ba")) {  // by key head its betas, then its step sizes
    const ValueId both = product(
        "ssm_ba", matrix("ssm_ba", config.n_embd, std::uint64_t{2} * s.heads), in, "ssm_ba");
    take("ssm_ba_b", both, op.beta, repeat, 2 * repeat, 0, 0);
    take("ssm_ba_a", both, steps, repeat, 2 * repeat, repeat, 0);
  } else {
    product("ssm_beta", matrix("ssm_beta", config.n_embd, s.heads), in, "ssm_beta");
    product("ssm_alpha", matrix("ssm_alpha", config.n_embd, s.heads), in, "ssm_alpha");
  }
  graph.add(GateMulOp{{}, {ActivationKind::Sigmoid}, 0}, "ssm_beta_sigmoid", kNoValue, op.beta);
  op.decay = graph.value("ssm_decay", s.heads);
  decay(s.heads, 1, {s.heads}, steps, op.decay, kNoValue);
  const ValueId conv = graph.value("ssm_conv", width), sums = graph.value("ssm_y", s.inner);
  convolve("ssm_conv1d", s.taps, mixed, conv);
  recur(op, conv, sums);
  gated_output("ssm_out", ActivationKind::Silu, static_cast<std::uint32_t>(value), sums, gate);
}

void ModelBuilder::kimi_delta_attention(ValueId in) {
  const std::uint32_t heads = config.n_heads[layer],
                      dim = keys.get("kda.head_dim", 1, limits::kStateSize),
                      taps = keys.get("ssm.conv_kernel", 1, limits::kConvolution);
  const std::uint64_t n = config.n_embd, width = std::uint64_t{heads} * dim;
  const ValueId conv = graph.value("ssm_conv", 3 * width);
  std::size_t offset = 0;
  for (const std::string part : {"q", "k", "v"}) {
    const ValueId projected = product("attn_" + part, matrix("attn_" + part, n, width), in, part);
    convolve("ssm_conv1d_" + part, taps, projected, conv, offset);
    offset += width;
  }
  const auto two_products = [&](const std::string& name, const std::string& value) {
    const ValueId low = product(name + "_a", matrix(name + "_a", n, dim), in, "ssm_low", true);
    return product(name + "_b", matrix(name + "_b", dim, width), low, value);
  };
  RecurrenceOp op;
  op.heads = heads;
  op.key_dim = dim;
  op.value_dim = dim;
  op.key_heads = heads;
  op.delta = true;
  op.key_decay = true;
  op.norm_eps = kKeyNormEps;
  op.q_scale = 1 / std::sqrt(static_cast<float>(dim));
  op.k_offset = width;
  op.v_offset = 2 * width;
  op.decay = graph.value("ssm_decay", width);
  decay(heads, dim, {1, heads}, two_products("ssm_f", "ssm_alpha"), op.decay, kNoValue);
  op.beta = product("ssm_beta", matrix("ssm_beta", n, heads), in, "ssm_beta");
  graph.add(GateMulOp{{}, {ActivationKind::Sigmoid}, 0}, "ssm_beta_sigmoid", kNoValue, op.beta);
  const ValueId sums = graph.value("ssm_y", width);
  recur(op, conv, sums);
  gated_output("attn_output", ActivationKind::Sigmoid, dim, sums, two_products("ssm_g", "ssm_z"));
}

void ModelBuilder::mamba2(ValueId in, const Branch& branch) {
  const StateSpace s = state_space();
  require_divisor("ssm.time_step_rank", s.heads, s.inner);
  require_divisor("ssm.group_count", s.groups, s.heads);
  const std::uint64_t inputs = std::uint64_t{s.groups} * s.state, width = s.inner + 2 * inputs;
  const Matrix all = matrix("ssm_in", config.n_embd, s.inner + width + s.heads);
  std::uint64_t row = 0;
  const ValueId gate = product("ssm_in_z", part_of(all, row, s.inner), in, "ssm_z"),
                mixed = product("ssm_in_x", part_of(all, row, width), in, "ssm_qkv"),
                steps = product("ssm_in_dt", part_of(all, row, s.heads), in, "ssm_alpha"),
                conv = graph.value("ssm_conv", width), sums = graph.value("ssm_y", s.inner);
  RecurrenceOp op;
  op.heads = s.heads;
  op.key_dim = s.state;
  op.value_dim = s.inner / s.heads;
  op.key_heads = s.groups;
  op.key_repeat = s.heads / s.groups;
  op.q_offset = s.inner + inputs;
  op.k_offset = s.inner;
  op.skip = weights.values(prefix() + "ssm_d", {1, s.heads});
  op.beta = graph.value("ssm_beta", s.heads);
  op.decay = graph.value("ssm_decay", s.heads);
  decay(s.heads, 1, {1, s.heads}, steps, op.decay, op.beta);
  convolve("ssm_conv1d", s.taps, mixed, conv);
  recur(op, conv, sums);
  graph.add(GateMulOp{{}, {ActivationKind::Silu}, 0}, "ssm_gate", sums, gate);
  if (has("ssm_norm")) {
    NormSpec norm = norm_spec("", s.inner / s.groups, false);
    norm.weight = weights.values(prefix() + "ssm_norm.weight", {norm.width, s.groups});
    norm.own_weights = true;
    graph.add(NormOp{{}, norm}, "ssm_norm", gate, gate);
  }
  join("ssm_out", matrix("ssm_out", s.inner, config.n_embd), gate, branch);
}

void ModelBuilder::mamba1(ValueId in, bool norms) {
  const StateSpace s = state_space();
  const std::uint32_t rank = s.heads;
  const bool plain_norms = keys.flag_or("ssm.dt_b_c_rms", false);
  const Matrix both = matrix("ssm_in", config.n_embd, std::uint64_t{2} * s.inner);
  std::uint64_t row = 0;
  const ValueId mixed = product("ssm_in_x", part_of(both, row, s.inner), in, "ssm_qkv"),
                gate = product("ssm_in_z", part_of(both, row, s.inner), in, "ssm_z"),
                conv = graph.value("ssm_conv", s.inner), sums = graph.value("ssm_y", s.inner);
  convolve("ssm_conv1d", s.taps, mixed, conv);
  const Matrix inputs = matrix("ssm_x", s.inner, rank + std::uint64_t{2} * s.state);
  row = 0;
  const auto part = [&](const std::string& name, std::uint32_t width) {
    const ValueId value =
        product("ssm_x_" + name, part_of(inputs, row, width), conv, "ssm_" + name, true);
    const std::string norm = "ssm_" + name + "_norm";
    if (norms || plain_norms)
      graph.add(NormOp{{}, norm_spec(norm, width, norms)}, norm, value, value);
    return value;
  };
  const ValueId low = part("dt", rank), b = part("b", s.state), c = part("c", s.state),
                steps = graph.value("ssm_dt", s.inner);
  product("ssm_dt", matrix("ssm_dt", rank, s.inner), low, "ssm_dt");
  DecayOp softplus;
  softplus.heads = s.inner;
  softplus.bias = vector("ssm_dt.bias", s.inner);
  graph.add(softplus, "ssm_dt_softplus", steps, steps);
  ScanOp op;
  op.channels = s.inner;
  op.state_dim = s.state;
  op.dt = steps;
  op.b = b;
  op.c = c;
  op.a = weights.values(prefix() + "ssm_a", {s.state, s.inner});
  op.skip = weights.values(prefix() + "ssm_d", {s.inner});
  op.state = graph.state(op.state_spec());
  graph.add(op, "ssm", conv, sums);
  graph.add(GateMulOp{{}, {ActivationKind::Silu}, 0}, "ssm_gate", sums, gate);
  join("ssm_out", matrix("ssm_out", s.inner, config.n_embd), gate, {});
}

}  // namespace cria
