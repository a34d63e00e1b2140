// Embeddings for every layer: a run of values for each, from the token and from its ordinary
// embedding.
#include <cmath>

#include "engine/architectures/model_builder.h"

namespace cria {

ValueId ModelBuilder::layer_inputs(std::uint32_t size) {
  const std::uint64_t width = std::uint64_t{size} * config.n_layers;
  const float n_embd = static_cast<float>(config.n_embd);
  Matrix projection =
      graph.matrix(weights.matrix("per_layer_model_proj.weight", config.n_embd, width));
  projection.scale = weights.scale("per_layer_model_proj.weight", width);
  const TensorView& weight = weights.vector("per_layer_proj_norm.weight", size);
  const TensorView& table = weights.matrix("per_layer_token_embd.weight", width, config.n_vocab);
  const ValueId inputs = product("per_layer_model_proj", projection, x, "layer_inputs");
  graph.add(Op::Scale, "per_layer_scale", kNoValue, inputs).scale = 1 / std::sqrt(n_embd);
  NormSpec norm{architecture_.norm, config.norm_eps, size, false, weight, {}, false};
  graph.add(Op::Norm, "per_layer_proj_norm", inputs, inputs).norm = norm;
  const ValueId tokens = graph.value("layer_tokens", width);
  Node& embed = graph.add(Op::Embed, "per_layer_token_embd", kNoValue, tokens);
  embed.matrices = {
      Matrix{table, {}, {}, weights.scale("per_layer_token_embd.weight", config.n_vocab)}};
  embed.scale = std::sqrt(static_cast<float>(size));
  add_scaled("per_layer_add", tokens, inputs, 1);
  graph.add(Op::Scale, "per_layer_mean", kNoValue, inputs).scale = std::sqrt(0.5F);
  return inputs;
}

}  // namespace cria
