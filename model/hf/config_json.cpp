// config.json as it is written.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/hf/config.h"

namespace cria {
namespace {

using Json = nlohmann::ordered_json;
using Kind = HfRopeScaling::Kind;

/// The shortest decimal number that is this float: 1e-05, not 9.999999747378752e-06.
double shortest(float value) {
  for (int digits = 1; digits < 9; ++digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*e", digits, static_cast<double>(value));
    if (const double number = std::strtod(text, nullptr); static_cast<float>(number) == value) return number;
  }
  return value;
}

Json scaling_json(const HfRopeScaling& scaling) {
  Json json = {{"rope_type", scaling.kind == Kind::Linear ? "linear"
                             : scaling.kind == Kind::Yarn ? "yarn"
                                                          : "llama3"}};
  json["factor"] = shortest(static_cast<float>(scaling.factor));
  if (scaling.kind == Kind::Linear) return json;
  if (scaling.kind == Kind::Llama3) {
    json["low_freq_factor"] = scaling.low_freq_factor;
    json["high_freq_factor"] = scaling.high_freq_factor;
  }
  json["original_max_position_embeddings"] = scaling.original_context;
  if (scaling.attention_factor)
    json["attention_factor"] = shortest(static_cast<float>(*scaling.attention_factor));
  if (scaling.beta_fast) json["beta_fast"] = shortest(static_cast<float>(*scaling.beta_fast));
  if (scaling.beta_slow) json["beta_slow"] = shortest(static_cast<float>(*scaling.beta_slow));
  return json;
}

}  // namespace

Json HfConfig::to_json(std::string_view dtype) const {
  Json json = {{"architectures", Json::array({model_class->name})},
               {"model_type", model_class->model_type},
               {"hidden_size", n_embd},
               {"num_hidden_layers", n_layers},
               {"num_attention_heads", n_heads},
               {"num_key_value_heads", n_kv_heads},
               {"head_dim", head_dim},
               {"intermediate_size", n_ff},
               {"hidden_act", "silu"},
               {"rms_norm_eps", shortest(norm_eps)},
               {"rope_theta", shortest(static_cast<float>(rope_base))},
               {"rope_scaling", nullptr},
               {"max_position_embeddings", n_ctx},
               {"vocab_size", n_vocab},
               {"tie_word_embeddings", tied_embeddings},
               {"torch_dtype", dtype}};
  if (rope_scaling.kind != Kind::None) json["rope_scaling"] = scaling_json(rope_scaling);
  if (!model_class->attention_bias) json["attention_bias"] = attention_bias;
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
