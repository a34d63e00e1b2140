// config.json as it is written.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/hf/config.h"

namespace cria {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Kind = HfRopeScaling::Kind;

double shortest(double value) { return shortest_decimal(static_cast<float>(value)); }

OrderedJson list(const std::vector<float>& values) {
  OrderedJson out = OrderedJson::array();
  for (const float value : values) out.push_back(shortest_decimal(value));
  return out;
}

OrderedJson longrope_json(const HfConfig& config) {
  const HfRopeScaling& scaling = config.rope_scaling;
  OrderedJson json = {{"type", "longrope"},
                      {"short_factor", list(scaling.short_factors)},
                      {"long_factor", list(scaling.long_factors)}};
  const HfLongRope form = config.model_class->longrope;
  if (form == HfLongRope::Context)
    json["rope_type"] = "longrope";  // as other readers of MiniCPM call it
  if (form != HfLongRope::Factors)
    json["original_max_position_embeddings"] = scaling.original_context;
  if (form == HfLongRope::Magnitudes)
    json["short_mscale"] = json["long_mscale"] = shortest(config.longrope_magnitude());
  else if (scaling.attention_factor)
    json["attention_factor"] = shortest(*scaling.attention_factor);
  return json;
}

OrderedJson scaling_json(const HfConfig& config) {
  const HfRopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == Kind::LongRope) return longrope_json(config);
  OrderedJson json = {{"rope_type", scaling.kind == Kind::Linear ? "linear"
                                    : scaling.kind == Kind::Yarn ? "yarn"
                                                                 : "llama3"}};
  json["factor"] = shortest(scaling.factor);
  if (scaling.kind == Kind::Linear) return json;
  if (scaling.kind == Kind::Llama3) {
    json["low_freq_factor"] = scaling.low_freq_factor;
    json["high_freq_factor"] = scaling.high_freq_factor;
  }
  json["original_max_position_embeddings"] = scaling.original_context;
  if (scaling.attention_factor) json["attention_factor"] = shortest(*scaling.attention_factor);
  if (scaling.beta_fast) json["beta_fast"] = shortest(*scaling.beta_fast);
  if (scaling.beta_slow) json["beta_slow"] = shortest(*scaling.beta_slow);
  return json;
}

/// The part of n that makes `rotated` when it is multiplied and cut.
double part_of(std::uint32_t rotated, std::uint32_t n) {
  const double part = static_cast<double>(rotated) / n;
  return static_cast<std::uint32_t>(part * n) == rotated ? part : std::nextafter(part, 2);
}

}  // namespace

double shortest_decimal(float value) {
  for (int digits = 1; digits < 9; ++digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*e", digits, static_cast<double>(value));
    if (const double number = std::strtod(text, nullptr); static_cast<float>(number) == value)
      return number;
  }
  return value;
}

OrderedJson HfConfig::to_json(std::string_view dtype) const {
  const std::string_view activation =
      model_class->activations.substr(0, model_class->activations.find(' '));
  OrderedJson json = {{"architectures", OrderedJson::array({model_class->name})},
                      {"model_type", model_class->model_type},
                      {"hidden_size", n_embd},
                      {std::string(model_class->layers_key), n_layers},
                      {"num_attention_heads", n_heads},
                      {"num_key_value_heads", n_kv_heads},
                      {std::string(model_class->head_dim), head_dim},
                      {"intermediate_size", n_ff},
                      {std::string(model_class->activation_key), activation},
                      {std::string(model_class->eps), shortest_decimal(norm_eps)},
                      {"rope_theta", shortest(static_cast<float>(rope_base))},
                      {"rope_scaling", nullptr},
                      {"max_position_embeddings", n_ctx},
                      {"vocab_size", n_vocab},
                      {"tie_word_embeddings", tied_embeddings},
                      {"torch_dtype", dtype}};
  if (rope_scaling.kind != Kind::None && rope_scaling.kind != Kind::Proportional)
    json["rope_scaling"] = scaling_json(*this);
  if (rope_scaling.kind == Kind::LongRope)
    json["original_max_position_embeddings"] = rope_scaling.original_context;
  if (model_class->partial_rotation) json["partial_rotary_factor"] = part_of(n_rot, head_dim);
  if (!model_class->attention_bias) json["attention_bias"] = attention_bias;
  if (model_class->mlp_bias) json["mlp_bias"] = mlp_bias;
  if (sliding_window) json["sliding_window"] = *sliding_window;
  if (sliding_window && !model_class->window_by_default) json["use_sliding_window"] = true;
  if (bos) json["bos_token_id"] = *bos;
  if (eos.size() == 1)
    json["eos_token_id"] = eos.front();
  else if (!eos.empty())
    json["eos_token_id"] = eos;
  return json;
}

}  // namespace cria
