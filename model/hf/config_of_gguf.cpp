// The config.json that a GGUF file's model would have, as an HfConfig.
#include <algorithm>
#include <cmath>
#include <functional>

#include "model/hf/config.h"

namespace cria {
namespace {

using Kind = HfRopeScaling::Kind;

/// The values of a tensor of float32; empty if there is none.
std::vector<float> floats_of(const GgufFile& file, const char* name) {
  const TensorView* const tensor = file.tensor(name);
  if (tensor == nullptr) return {};
  if (tensor->data == nullptr)
    throw file.error("the file does not hold the tensor's data", std::string("tensor ") + name);
  std::vector<float> values(tensor->cols());
  dtype_info(tensor->dtype).dequantize(tensor->data, values.data(), values.size());
  return values;
}

/// The settings behind rope_freqs.weight. Known models use one set of frequencies and several
/// factors; the last factor of the tensor is the whole one.
HfRopeScaling guess_llama3(const GgufFile& file, HfConfig config) {
  constexpr double kTolerance = 1e-5;  // other converters compute the factors in float
  const std::vector<float> wanted = floats_of(file, "rope_freqs.weight");
  config.rope_scaling = {.kind = Kind::Llama3, .factor = wanted.back(), .original_context = 8192};
  const std::vector<float> factors = config.rope_factors();
  if (factors.size() != wanted.size() ||
      !std::equal(factors.begin(), factors.end(), wanted.begin(),
                  [](float a, float b) { return std::abs(a - b) <= kTolerance * std::abs(a); }))
    throw file.error(
        "RoPE factors that config.json cannot say: expected those of Llama 3.1 (frequency factors "
        "1 and 4, "
        "original context 8192)",
        "tensor rope_freqs.weight");
  return config.rope_scaling;
}

/// How many frequencies are left as they are; the others must be as good as none.
HfRopeScaling guess_proportional(const GgufFile& file) {
  const std::vector<float> factors = floats_of(file, "rope_freqs.weight");
  const auto end = std::ranges::find_if(factors, [](float factor) { return factor != 1; });
  if (!std::all_of(end, factors.end(),
                   [](float factor) { return factor >= HfRopeScaling::kNoRotation; }))
    throw file.error(
        "RoPE factors that config.json cannot say: expected 1, and then numbers as large as 1e30",
        "tensor rope_freqs.weight");
  return {.kind = Kind::Proportional,
          .rotated_part =
              static_cast<double>(end - factors.begin()) / static_cast<double>(factors.size())};
}

HfRopeScaling scaling_of(const GgufFile& file, const ModelConfig& from, HfConfig config) {
  HfRopeScaling& scaling = config.rope_scaling;
  const auto refuse = [&](const std::string& what) {
    throw file.error("cannot be said in config.json: " + what);
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
    if (from.rope_attn_factor != 1) refuse("a factor of rotated values (rope.scaling.attn_factor)");
    return scaling;
  }
  scaling.kind = Kind::Yarn;
  const auto optional = [&](const char* key) {
    return file.find_float(from.arch + ".rope.scaling." + key);
  };
  scaling.log_multiplier = from.yarn_log_multiplier;
  const double magnitude = from.rope_attn_factor * config.yarn_magnitude();
  if (optional("attn_factor") || magnitude != config.usual_magnitude())
    scaling.attention_factor = magnitude;
  scaling.beta_fast = optional("yarn_beta_fast");
  scaling.beta_slow = optional("yarn_beta_slow");
  return scaling;
}

}  // namespace

HfConfig HfConfig::from_gguf(const GgufFile& file, const ModelConfig& from,
                             const HfClass& model_class) {
  HfConfig config;
  config.model_class = &model_class;
  const auto refuse = [&](const std::string& what) {
    throw file.error("cannot be said in config.json of " + std::string(model_class.name) + ": " +
                     what);
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
      refuse("heads that are rotated in part");
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

}  // namespace cria
