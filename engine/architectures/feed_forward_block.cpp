// Feed-forward networks: dense ones, and experts.
#include "engine/architectures/model_builder.h"

namespace cria {

// Returns the width of a shared or routed expert: what its tensors have, or else what the key says.
std::uint64_t ModelBuilder::width_of(std::initializer_list<std::string> downs, const char* key) {
  for (const std::string& name : downs)
    if (const auto shape = weights.shape_of(prefix() + name + ".weight")) return shape->front();
  return keys.get_or(key, config.n_ff[layer], 1, limits::kFeedForward);
}

ValueId ModelBuilder::feed_forward_value(ValueId in, const FeedForwardBlock& f,
                                         const std::string& suffix, const std::string& value) {
  const std::string down_name = "ffn_down" + suffix;
  const std::uint64_t width = suffix.empty()
                                  ? config.n_ff[layer]
                                  : width_of({down_name}, "expert_shared_feed_forward_length");
  const std::uint64_t n_embd = config.n_embd;
  std::vector<Matrix> matrices;
  if (f.fused) {
    const Matrix both = matrix("ffn_up" + suffix, n_embd, 2 * width);
    for (const std::uint64_t begin : {std::uint64_t{0}, width})
      matrices.push_back(rows_of(both, begin, width));
  } else {
    if (f.gated) matrices.push_back(matrix("ffn_gate" + suffix, n_embd, width, f.biases));
    matrices.push_back(matrix("ffn_up" + suffix, n_embd, width, f.biases));
  }
  const Matrix down = matrix(down_name, width, n_embd, f.biases);
  const ValueId out = graph.value("ffn", width);
  const ValueId up = matrices.size() > 1 ? graph.value("up", width) : kNoValue;
  const std::string name = (up != kNoValue ? "ffn_gate_up" : "ffn_up") + suffix;
  graph.add(FeedForwardOp{{}, up, f.activation}, name, in, out, std::move(matrices));
  if (value.empty()) {
    join(down_name, down, out, f.branch);
    return x;
  }
  return product(down_name, down, out, value);
}

void ModelBuilder::feed_forward(ValueId in, const FeedForwardBlock& f) {
  feed_forward_value(in, f, "", "");
}

void ModelBuilder::experts_or_feed_forward(ValueId in, const ExpertsBlock& e,
                                           const FeedForwardBlock& f) {
  has_experts() ? experts(in, e) : feed_forward(in, f);
}

ExpertsBlock ModelBuilder::experts_by_keys(Gating usual) {
  ExpertsBlock e;
  const std::uint32_t function = keys.get_or("expert_gating_func", 0, 0, 2);
  e.gating = function == 0 ? usual : function == 1 ? Gating::Softmax : Gating::Sigmoid;
  e.normalized = keys.flag_or("expert_weights_norm", false);
  const float scale = keys.number_or("expert_weights_scale", 0);
  e.scale = scale == 0 ? 1 : scale;
  e.groups = std::max(1U, keys.get_or("expert_group_count", 1, 0, std::max(1U, config.n_experts)));
  e.groups_used = std::max(1U, keys.get_or("expert_group_used_count", e.groups, 0, e.groups));
  if (e.groups > 1 && (config.n_experts % e.groups != 0 || config.n_experts / e.groups < 2))
    keys.fail("expert_group_count", "groups do not divide the experts: expected a divisor of " +
                                        std::to_string(config.n_experts) +
                                        " and groups of 2 or more, got " +
                                        std::to_string(e.groups));
  if (e.groups > 1 && config.n_experts_used > config.n_experts / e.groups * e.groups_used)
    keys.fail("expert_used_count", "more experts than the groups used have: expected at most " +
                                       std::to_string(config.n_experts / e.groups * e.groups_used) +
                                       ", got " + std::to_string(config.n_experts_used));
  e.selection_bias = true;
  return e;
}

// Experts are stacked in one tensor, or have a tensor each ("ffn_gate.3").
std::vector<Matrix> ModelBuilder::expert_matrices(const std::string& name, std::uint64_t cols,
                                                  std::uint64_t rows, bool bias) {
  std::vector<Matrix> matrices;
  const std::uint64_t n = config.n_experts;
  const std::string stacked = prefix() + name + "_exps";
  if (!weights.has(stacked + ".weight") && has(name + ".0")) {
    for (std::uint64_t e = 0; e < n; ++e)
      matrices.push_back(matrix(name + "." + std::to_string(e), cols, rows));
    return matrices;
  }
  const Matrix all = stacked_matrix(name + "_exps", cols, rows, n);
  const TensorView* const biases = bias ? &weights.vectors(stacked + ".bias", {rows, n}) : nullptr;
  for (std::uint64_t e = 0; e < n; ++e) {
    Matrix m = rows_of(all, e * rows, rows);
    if (biases != nullptr) {
      m.bias = rows_of(*biases, e, 1);
      m.bias->shape = {rows};
    }
    matrices.push_back(std::move(m));
  }
  return matrices;
}

// Families that do not read these keys compute the same whatever they say. The softmax over chosen
// experts is that over all, normalized.
void ModelBuilder::expect_usual_router(const ExpertsBlock& e) const {
  if (e.gating == Gating::SoftmaxOfChosen) return;
  keys.expect("expert_weights_norm", e.normalized ? 1 : 0, e.normalized ? 1 : 0);
  keys.expect("expert_gating_func", e.gating == Gating::Softmax ? 1 : 2, 0);
}

ValueId ModelBuilder::experts_value(ValueId in, ValueId router_in, const ExpertsBlock& e) {
  keys.get("expert_count", 1, limits::kExperts);
  keys.get("expert_used_count", 1, config.n_experts);
  expect_usual_router(e);
  const std::uint64_t n = config.n_experts, used = config.n_experts_used, n_in = graph.width(in),
                      width =
                          width_of({"ffn_down_exps", "ffn_down.0"}, "expert_feed_forward_length");
  RouteOp route;
  route.n = n;
  route.used = used;
  route.gating = e.gating;
  route.groups = e.groups;
  route.groups_used = e.groups_used;
  route.normalized = e.normalized;
  route.scale = e.scale;
  route.weight_at_input = e.weight_at_input;
  if (e.selection_bias && weights.has(prefix() + "exp_probs_b.bias"))
    route.selection_bias = vector("exp_probs_b.bias", n);
  // DeepSeek 2's group_limited_greedy, which GGUF has no key for; with a bias it is DeepSeek 3's
  // noaux_tc.
  route.groups_by_best = e.groups > 1 && e.gating == Gating::Softmax && !route.selection_bias;
  if (e.biases) (void)vector("ffn_gate_inp.bias", n);
  const Matrix router = unscaled_matrix("ffn_gate_inp", graph.width(router_in), n, e.biases);

  std::vector<Matrix> up, downs = expert_matrices("ffn_down", width, n_in, e.biases);
  if (e.gated && has("ffn_gate_up_exps")) {
    const Matrix both = stacked_matrix("ffn_gate_up_exps", n_in, 2 * width, n);
    for (const std::uint64_t half : {std::uint64_t{0}, width})
      for (std::uint64_t i = 0; i < n; ++i)
        up.push_back(rows_of(both, i * 2 * width + half, width));
  } else {
    if (e.gated) up = expert_matrices("ffn_gate", n_in, width, e.biases);
    for (Matrix& m : expert_matrices("ffn_up", n_in, width, e.biases)) up.push_back(std::move(m));
  }

  const ValueId products = product("ffn_gate_inp", router, router_in, "router");
  graph.add(route, "ffn_experts", products, products);
  const ValueId ffn = graph.value("experts", width, used),
                ups = e.gated ? graph.value("experts_up", width, used) : kNoValue,
                sum = graph.value("moe", n_in);
  graph.add(ExpertsUpOp{{}, n, used, e.weight_at_input, ups, e.activation}, "ffn_gate_up_exps", in,
            ffn, std::move(up));
  graph.add(ExpertsDownOp{{}, n, used, e.weight_at_input}, "ffn_down_exps", ffn, sum,
            std::move(downs));
  return sum;
}

void ModelBuilder::experts(ValueId in, const ExpertsBlock& e) {
  // Routed experts may work on a smaller vector (Nemotron 3).
  ValueId sum = kNoValue;
  if (has("ffn_latent_down")) {
    const std::uint32_t width = keys.get("moe_latent_size", 1, limits::kEmbedding);
    const ValueId small =
        product("ffn_latent_down", matrix("ffn_latent_down", config.n_embd, width), in, "latent");
    sum = product("ffn_latent_up", matrix("ffn_latent_up", width, config.n_embd),
                  experts_value(small, in, e), "moe");
  } else {
    sum = experts_value(in, in, e);
  }
  if (e.shared || has("ffn_up_shexp")) {
    FeedForwardBlock shared;
    shared.activation = e.activation;
    shared.gated = e.gated;
    const ValueId one = feed_forward_value(in, shared, "_shexp", "shared");
    if (e.shared_gate) {
      const ValueId gate = product(
          "ffn_gate_inp_shexp", matrix("ffn_gate_inp_shexp", config.n_embd, 1), in, "shared_gate");
      graph.add(GateOp{}, "ffn_shexp_gate", gate, one);
    }
    add_scaled("ffn_shexp_add", one, sum, 1);
  }
  join("ffn_experts_add", sum, e.branch);
}

}  // namespace cria
