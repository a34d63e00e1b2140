// Keys that say one thing together: experts, windows, latent attention.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/architectures/hf_keys.h"

namespace cria {

using Json = nlohmann::json;

void HfKeys::repeat_for_layers(std::string_view key) {
  nlohmann::ordered_json& value = (*out_)[std::string(key)];
  value = std::vector<nlohmann::ordered_json>(config.n_layers, value);
}

void HfKeys::say_dense_layers() {
  if (!exporting()) return;
  std::vector<std::uint32_t> dense;
  for (std::uint32_t i = 0; i < config.n_layers; ++i)
    if (!has_tensor("blk." + std::to_string(i) + ".ffn_gate_inp.weight")) dense.push_back(i);
  say("decoder_sparse_step", 1);
  say("mlp_only_layers", dense);
}

std::uint32_t HfKeys::leading_dense_layers() const {
  static_cast<void>(keys_->has("leading_dense_block_count"));
  std::uint32_t layer = 0;
  while (layer < config.n_layers &&
         !has_tensor("blk." + std::to_string(layer) + ".ffn_gate_inp.weight"))
    ++layer;
  return layer;
}

// The tensors know the width better than the key, which may be missing.
void HfKeys::copy_experts(std::string_view count, std::string_view used, std::string_view width) {
  copy_uint("expert_count", count, limits::kExperts);
  copy_uint("expert_used_count", used, limits::kExperts);
  if (!exporting()) return set("expert_feed_forward_length", uint(width, limits::kFeedForward));
  static_cast<void>(keys_->has("expert_feed_forward_length"));
  say(width, cols_of("ffn_down_exps"));
}

void HfKeys::copy_shared_experts(std::string_view key) {
  if (!exporting()) return set("expert_shared_count", uint_or(key, 0, limits::kExperts));
  static_cast<void>(keys_->has("expert_shared_count"));
  const std::uint64_t width = cols_of("ffn_down_exps");
  say(key, width == 0 ? 0 : cols_of("ffn_down_shexp") / width);
}

void HfKeys::copy_routed_experts(std::uint32_t gating, bool grouped) {
  copy_experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size");
  if (exporting()) {
    const std::uint32_t got = keys_->get_or("expert_gating_func", 0, 0, 16);
    if (got != gating && (got != 0 || gating != 1))
      fail("expert_gating_func",
           "expected " + std::to_string(gating) + ", got " + std::to_string(got));
  } else {
    set("expert_gating_func", gating);
  }
  copy_shared_experts("n_shared_experts");
  copy_flag_or("expert_weights_norm", "norm_topk_prob", false);
  if (exporting() || has("routed_scaling_factor"))
    copy_scale("expert_weights_scale", "routed_scaling_factor");
  if (exporting())
    say("first_k_dense_replace", leading_dense_layers());
  else
    set("leading_dense_block_count", uint_or("first_k_dense_replace", 0, limits::kLayers));
  if (exporting())
    (void)keys_->get_or("expert_group_used_count", 1, 0,
                        limits::kExperts);  // of one group: nothing to say
  if (!grouped) return;
  const bool groups = (exporting() ? keys_->get_or("expert_group_count", 1, 0, limits::kExperts)
                                   : uint_or("n_group", 1, limits::kExperts)) > 1;
  if (groups) {
    copy_uint("expert_group_count", "n_group", limits::kExperts);
    copy_uint("expert_group_used_count", "topk_group", limits::kExperts);
  } else if (exporting()) {  // DeepSeek 3 has groups unless it is said
    for (const char* key : {"n_group", "topk_group"}) say(key, 1);
  }
}

std::vector<bool> HfKeys::windowed(std::uint32_t period) const {
  std::vector<bool> layers;
  const Json* const types = find("layer_types");
  if (types != nullptr) {
    if (!types->is_array() || types->size() != config.n_layers)
      fail("layer_types", "expected a list of one name for each layer");
    for (const Json& type : *types) {
      if (type != "sliding_attention" && type != "full_attention")
        fail("layer_types", "expected sliding_attention or full_attention, got " + type.dump());
      layers.push_back(type == "sliding_attention");
    }
    return layers;
  }
  const Json* const pattern = find("sliding_window_pattern");
  const std::string letters =
      pattern != nullptr && pattern->is_string() ? pattern->get<std::string>() : "";
  if (pattern != nullptr && letters.empty()) {
    period = uint("sliding_window_pattern", limits::kLayers);
    if (period == 0) fail("sliding_window_pattern", "out of range: expected 1 or more");
  }
  for (std::uint32_t i = 0; i < config.n_layers; ++i)
    layers.push_back(letters.empty() ? i % period < period - 1
                                     : letters[i % letters.size()] == 'L');
  return layers;
}

void HfKeys::copy_windows(std::uint32_t period, std::uint32_t usual, bool always) {
  if (exporting()) return say_windows(period, usual);
  if (!has("sliding_window")) return;
  set("attention.sliding_window", uint("sliding_window", limits::kContext));
  const std::vector<bool> layers = windowed(period);
  for (std::uint32_t i = 0; i < config.n_layers; ++i) {
    if (!always && layers[i] == (i % period < period - 1)) continue;
    return set("attention.sliding_window_pattern", GgufArray::of(layers));
  }
}

// Other readers know a window's length, but not always which layers have it.
void HfKeys::copy_windows_if_any(std::uint32_t period, bool say_none) {
  const bool any =
      exporting() || (has("sliding_window") && std::ranges::count(windowed(period), true) != 0);
  if (any) return copy_windows(period);
  if (say_none) set("attention.sliding_window", 0U);
}

void HfKeys::say_windows(std::uint32_t period, std::uint32_t usual) {
  const std::uint32_t window =
      keys_->get_or("attention.sliding_window", usual, 0, limits::kContext);
  if (window == 0) return say_no_windows();
  say("sliding_window", window);
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (const bool layer : windowed_layers(*keys_, config.n_layers, period))
    types.push_back(layer ? "sliding_attention" : "full_attention");
  say("layer_types", std::move(types));
}

// Without a key, classes have the windows of their first models. Their code makes a mask of the
// window's length even where no layer uses it, and older versions go by the pattern.
void HfKeys::say_no_windows() {
  say("sliding_window", config.n_ctx);
  say("sliding_window_pattern", 1);
  say("layer_types", std::vector<std::string>(config.n_layers, "full_attention"));
}

void HfKeys::copy_unrotated(std::uint32_t period) {
  std::vector<std::uint32_t> usual;
  for (std::uint32_t i = 1; i <= config.n_layers; ++i) usual.push_back(i % period == 0 ? 0 : 1);
  constexpr std::string_view kKey = "no_rope_layers";
  if (exporting()) return say(kKey, usual);
  if (has(kKey) && !find(kKey)->empty() && list(kKey, 1) != usual)
    fail(kKey, "expected a 0 for every " + std::to_string(period) + "th layer alone");
}

void HfKeys::copy_rope_number(std::string_view suffix, std::string_view key, double factor) {
  if (!exporting()) {
    const double number = rope_number_or(key, 0);
    if (number != 0) set(suffix, static_cast<float>(number * factor));
    return;
  }
  const float number = keys_->number_or(suffix, 0);
  if (number != 0) (*out_)["rope_scaling"][std::string(key)] = unscaled(number, factor);
}

void HfKeys::say_scaling(std::string_view key, nlohmann::ordered_json value) {
  nlohmann::ordered_json& scaling = (*out_)["rope_scaling"];
  if (!scaling.is_null()) scaling[std::string(key)] = std::move(value);
}

void HfKeys::say_if_unscaled() {
  nlohmann::ordered_json& scaling = (*out_)["rope_scaling"];
  if (scaling.is_null()) scaling = {{"rope_type", "default"}};
}

void HfKeys::copy_mscale(double factor) {
  constexpr std::string_view kSuffix = "rope.scaling.yarn_log_multiplier";
  if (!exporting() && rope_number_or("mscale", rope_number_or("mscale_all_dim", 0)) !=
                          rope_number_or("mscale_all_dim", 0))
    fail("rope_scaling", "mscale: expected the same as mscale_all_dim");
  copy_rope_number(kSuffix, "mscale_all_dim", factor);
  if (exporting()) copy_rope_number(kSuffix, "mscale", factor);
}

void HfKeys::copy_latent_attention() {
  copy_mscale(0.1);
  if (exporting()) return say_latent_attention();
  const std::uint32_t rotated = uint("qk_rope_head_dim", limits::kEmbedding);
  copy_uint("attention.kv_lora_rank", "kv_lora_rank", limits::kEmbedding);
  copy_uint_if_there("attention.q_lora_rank", "q_lora_rank", limits::kEmbedding);
  set("attention.key_length", uint("qk_nope_head_dim", limits::kEmbedding) + rotated);
  copy_uint("attention.value_length", "v_head_dim", limits::kEmbedding);
  set("rope.dimension_count", rotated);
}

// Newer files have the sizes of a head in keys of their own, and the cache's in the usual ones.
void HfKeys::say_latent_attention() {
  const auto size = [&](const char* newer, const char* older) {
    return keys_->has(newer) ? keys_->get(newer, 1, limits::kEmbedding)
                             : keys_->get(older, 1, limits::kEmbedding);
  };
  const std::uint32_t rotated = config.n_rot;
  const std::uint32_t head = size("attention.key_length_mla", "attention.key_length");
  if (head <= rotated) fail("attention.key_length", "expected more than what is rotated");
  leave_out("head_dim");
  say("num_key_value_heads", config.n_heads);
  say("qk_rope_head_dim", rotated);
  say("qk_nope_head_dim", head - rotated);
  say("v_head_dim", size("attention.value_length_mla", "attention.value_length"));
  copy_uint("attention.kv_lora_rank", "kv_lora_rank", limits::kEmbedding);
  say("q_lora_rank", nullptr);
  copy_uint_if_there("attention.q_lora_rank", "q_lora_rank", limits::kEmbedding);
}

}  // namespace cria
