// An HfConfig read from a GGUF file, and written to GGUF or config.json.
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>

#include "engine/convert/hf_config.h"
#include "model/gguf/writer.h"

namespace cria {
namespace {

using Kind = HfRopeScaling::Kind;

/// Llama 3.1's divisor of a frequency: 1 for waves much shorter than the original context, the
/// whole factor for long ones, a mean of both in between.
double llama3_factor(const HfRopeScaling& scaling, double frequency) {
  const double wave = 2 * std::numbers::pi / frequency, context = scaling.original_context;
  if (wave < context / scaling.high_freq_factor) return 1;
  if (wave >= context / scaling.low_freq_factor) return scaling.factor;
  const double smooth = (context / wave - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return 1 / ((1 - smooth) / scaling.factor + smooth);
}

/// The values of an F32 tensor; empty if missing.
std::vector<float> floats_of(const GgufFile& file, const char* name) {
  const TensorView* const tensor = file.tensor(name);
  if (tensor == nullptr) return {};
  if (tensor->data == nullptr)
    throw file.error("the file lacks the tensor's data", std::string("tensor ") + name);
  std::vector<float> values(tensor->cols());
  dtype_info(tensor->dtype).dequantize(tensor->data, values.data(), values.size());
  return values;
}

/// The settings that gave rope_freqs.weight. Known models share the frequency factors; the last
/// value of the tensor is the whole factor.
HfRopeScaling guess_llama3(const GgufFile& file, HfConfig config) {
  constexpr double kTolerance = 1e-5;  // other converters compute the factors in float
  const std::vector<float> wanted = floats_of(file, "rope_freqs.weight");
  config.rope_scaling = {.kind = Kind::Llama3, .factor = wanted.back(), .original_context = 8192};
  const std::vector<float> factors = config.rope_factors();
  if (factors.size() != wanted.size() ||
      !std::equal(factors.begin(), factors.end(), wanted.begin(),
                  [](float a, float b) { return std::abs(a - b) <= kTolerance * std::abs(a); }))
    throw file.error(
        "config.json cannot express these RoPE factors: expected Llama 3.1's (frequency "
        "factors 1 and 4, original context 8192)",
        "tensor rope_freqs.weight");
  return config.rope_scaling;
}

/// The part of the frequencies with factor 1; the others must be practically without rotation.
HfRopeScaling guess_proportional(const GgufFile& file) {
  const std::vector<float> factors = floats_of(file, "rope_freqs.weight");
  const auto end = std::ranges::find_if(factors, [](float factor) { return factor != 1; });
  if (!std::all_of(end, factors.end(),
                   [](float factor) { return factor >= HfRopeScaling::kNoRotation; }))
    throw file.error(
        "config.json cannot express these RoPE factors: expected ones, then numbers of 1e30 or "
        "more",
        "tensor rope_freqs.weight");
  return {.kind = Kind::Proportional,
          .rotated_part =
              static_cast<double>(end - factors.begin()) / static_cast<double>(factors.size())};
}

HfRopeScaling scaling_of(const GgufFile& file, const ModelConfig& from, HfConfig config) {
  HfRopeScaling& scaling = config.rope_scaling;
  const auto refuse = [&](const std::string& what) {
    throw file.error("config.json cannot express " + what);
  };
  if (file.tensor("rope_freqs.weight") != nullptr)
    return config.model_class->proportional ? guess_proportional(file) : guess_llama3(file, config);
  scaling.factor = from.rope_factor;
  scaling.original_context = from.rope_orig_ctx;
  scaling.short_factors = floats_of(file, "rope_factors_short.weight");
  scaling.long_factors = floats_of(file, "rope_factors_long.weight");
  if (!scaling.long_factors.empty()) {
    scaling.kind = Kind::LongRope;
    if (config.model_class->longrope == HfLongRope::None ||
        scaling.short_factors.size() != scaling.long_factors.size())
      refuse("RoPE factors");
    if (static_cast<float>(config.longrope_magnitude()) != from.rope_attn_factor)
      scaling.attention_factor = from.rope_attn_factor;
    return scaling;
  }
  if (from.rope_scaling == RopeScaling::Linear) scaling.kind = Kind::Linear;
  if (from.rope_scaling != RopeScaling::Yarn) {
    if (from.rope_attn_factor != 1) refuse("a scale of rotated values (rope.scaling.attn_factor)");
    return scaling;
  }
  scaling.kind = Kind::Yarn;
  const auto optional = [&](const char* key) {
    return file.find_float(from.arch + ".rope.scaling." + key);
  };
  scaling.log_multiplier = from.yarn_log_multiplier;
  const double magnitude = from.rope_attn_factor * config.yarn_magnitude();
  if (optional("attn_factor") || magnitude != config.default_magnitude())
    scaling.attention_factor = magnitude;
  scaling.beta_fast = optional("yarn_beta_fast");
  scaling.beta_slow = optional("yarn_beta_slow");
  return scaling;
}

double shortest(double value) { return shortest_decimal(static_cast<float>(value)); }

Json list(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float value : values) out.push_back(shortest_decimal(value));
  return out;
}

Json longrope_json(const HfConfig& config) {
  const HfRopeScaling& scaling = config.rope_scaling;
  Json json = {{"type", "longrope"},
               {"short_factor", list(scaling.short_factors)},
               {"long_factor", list(scaling.long_factors)}};
  const HfLongRope form = config.model_class->longrope;
  if (form == HfLongRope::Context) json["rope_type"] = "longrope";  // for other readers of MiniCPM
  if (form != HfLongRope::Factors)
    json["original_max_position_embeddings"] = scaling.original_context;
  if (form == HfLongRope::Magnitudes)
    json["short_mscale"] = json["long_mscale"] = shortest(config.longrope_magnitude());
  else if (scaling.attention_factor)
    json["attention_factor"] = shortest(*scaling.attention_factor);
  return json;
}

Json scaling_json(const HfConfig& config) {
  const HfRopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == Kind::LongRope) return longrope_json(config);
  Json json = {{"rope_type", scaling.kind == Kind::Linear ? "linear"
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

/// The part of n that gives `rotated` when multiplied and truncated.
double part_of(std::uint32_t rotated, std::uint32_t n) {
  const double part = static_cast<double>(rotated) / n;
  return static_cast<std::uint32_t>(part * n) == rotated ? part : std::nextafter(part, 2);
}

}  // namespace

// Two equal scales cancel out, and so does a single one; hf::mscale() rejects others.
double HfConfig::default_magnitude() const {
  if (model_class->mscale && rope_scaling.log_multiplier != 0) return 1;
  return 1 + 0.1 * std::log(rope_scaling.factor);
}

// Latent attention multiplies scores instead.
double HfConfig::yarn_magnitude() const {
  if (model_class->latent) return 1;
  const double growth = 0.1 * std::log(rope_scaling.factor);
  return (1 + growth) / (1 + rope_scaling.log_multiplier * growth);
}

std::vector<float> HfConfig::rope_factors() const {
  std::vector<float> factors;
  if (rope_scaling.kind == Kind::Proportional) {
    factors.assign(n_rot / 2, HfRopeScaling::kNoRotation);
    std::fill_n(factors.begin(), static_cast<std::size_t>(rope_scaling.rotated_part * n_rot / 2),
                1.0F);
  }
  if (rope_scaling.kind != Kind::Llama3) return factors;
  for (std::uint32_t i = 0; i < n_rot / 2; ++i)
    factors.push_back(
        static_cast<float>(llama3_factor(rope_scaling, std::pow(rope_base, -2.0 * i / n_rot))));
  return factors;
}

double HfConfig::longrope_magnitude() const {
  if (rope_scaling.attention_factor) return *rope_scaling.attention_factor;
  const double factor = static_cast<double>(n_ctx) / rope_scaling.original_context;
  return factor <= 1 ? 1
                     : std::sqrt(1 + std::log(factor) / std::log(rope_scaling.original_context));
}

std::optional<MlxPacking> HfConfig::packing_of(std::string_view tensor) const {
  if (tensor.ends_with(".weight")) tensor.remove_suffix(7);
  const auto other = other_packing.find(tensor);
  return other != other_packing.end() ? other->second : packing;
}

HfConfig HfConfig::from_gguf(const GgufFile& file, const ModelConfig& from,
                             const HfClass& model_class) {
  HfConfig config;
  config.model_class = &model_class;
  const auto refuse = [&](const std::string& what) {
    throw file.error("config.json of " + std::string(model_class.name) + " cannot express " + what);
  };
  const auto same = [&](const std::vector<std::uint32_t>& numbers, const char* what,
                        bool may_differ) {
    if (!may_differ && std::ranges::adjacent_find(numbers, std::not_equal_to<>()) != numbers.end())
      refuse(std::string("layers with different ") + what);
    return numbers.front();
  };
  config.n_layers = from.n_layers;
  config.n_embd = from.n_embd;
  config.n_heads = same(from.n_heads, "numbers of heads", false);
  config.n_kv_heads = same(from.n_kv_heads, "numbers of KV heads", model_class.by_layer);
  config.n_ff = same(from.n_ff, "widths", model_class.by_layer);
  config.head_dim = from.head_dim_k;
  config.n_rot = from.n_rot;
  if (!model_class.latent) {
    if (from.head_dim_k != from.head_dim_v) refuse("keys and values of different sizes");
    if (from.n_rot != from.head_dim_k && !model_class.partial_rotation)
      refuse("partial rotation of heads");
  }
  config.n_vocab = from.n_vocab;
  config.n_ctx = from.n_ctx_train;
  config.norm_eps = from.norm_eps;
  config.rope_base = from.rope_base;
  config.tied_embeddings = file.tensor("output.weight") == nullptr;
  config.attention_bias =
      file.tensor("blk.0.attn_q.bias") != nullptr || file.tensor("blk.0.attn_qkv.bias") != nullptr;
  config.mlp_bias = file.tensor("blk.0.ffn_up.bias") != nullptr;
  if (config.mlp_bias && !model_class.mlp_bias) refuse("biases in the feed-forward part");
  config.rope_scaling = scaling_of(file, from, config);
  return config;
}

double shortest_decimal(float value) {
  for (int digits = 1; digits < 9; ++digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*e", digits, static_cast<double>(value));
    if (const double number = std::strtod(text, nullptr); static_cast<float>(number) == value)
      return number;
  }
  return value;
}

Json HfConfig::to_json(std::string_view dtype) const {
  const std::string_view activation =
      model_class->activations.substr(0, model_class->activations.find(' '));
  Json json = {{"architectures", Json::array({model_class->name})},
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
  if (!model_class->attention)
    for (const auto key : {"num_attention_heads", "num_key_value_heads", "head_dim",
                           "intermediate_size", "rope_theta", "rope_scaling", "attention_bias"})
      json.erase(key);
  if (bos) json["bos_token_id"] = *bos;
  if (eos.size() == 1)
    json["eos_token_id"] = eos.front();
  else if (!eos.empty())
    json["eos_token_id"] = eos;
  return json;
}

void HfConfig::write(GgufWriter& writer, NormKind norm) const {
  const std::string prefix = std::string(model_class->arch) + ".";
  const auto set = [&](const char* key, GgufData value) {
    writer.set(prefix + key, std::move(value));
  };
  writer.set("general.architecture", std::string(model_class->arch));
  set("vocab_size", n_vocab);
  set("context_length", n_ctx);
  set("embedding_length", n_embd);
  set("block_count", n_layers);
  set("feed_forward_length", n_ff);
  set("attention.head_count", n_heads);
  set("attention.head_count_kv", n_kv_heads);
  set(norm == NormKind::Layer ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
      norm_eps);
  if (!model_class->attention) return;
  if (head_dim * n_heads != n_embd) {  // otherwise the default
    set("attention.key_length", head_dim);
    set("attention.value_length", head_dim);
  }
  if (sliding_window) set("attention.sliding_window", *sliding_window);
  set("rope.dimension_count", n_rot);
  set("rope.freq_base", static_cast<float>(rope_base));
  const HfRopeScaling& scaling = rope_scaling;
  if (scaling.kind == Kind::LongRope) {
    set("rope.scaling.original_context_length", scaling.original_context);
    set("rope.scaling.attn_factor", static_cast<float>(longrope_magnitude()));
  }
  if (scaling.kind != Kind::Linear && scaling.kind != Kind::Yarn) return;
  set("rope.scaling.type", std::string(scaling.kind == Kind::Linear ? "linear" : "yarn"));
  set("rope.scaling.factor", static_cast<float>(scaling.factor));
  if (scaling.kind == Kind::Linear) return;
  set("rope.scaling.original_context_length", scaling.original_context);
  if (scaling.attention_factor)
    set("rope.scaling.attn_factor",
        static_cast<float>(*scaling.attention_factor / yarn_magnitude()));
  if (scaling.beta_fast) set("rope.scaling.yarn_beta_fast", static_cast<float>(*scaling.beta_fast));
  if (scaling.beta_slow) set("rope.scaling.yarn_beta_slow", static_cast<float>(*scaling.beta_slow));
}

}  // namespace cria
