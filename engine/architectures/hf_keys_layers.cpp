// Keys of models whose layers with a window differ from the others in more than that.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/architectures/hf_keys.h"

namespace cria {

void HfKeys::leave_out_prediction() {
  if (!exporting()) return;
  config.n_layers -= keys_->get_or("nextn_predict_layers", 0, 0, config.n_layers - 1);
  say(config.model_class->layers_key, config.n_layers);
  say("num_nextn_predict_layers", 0);
}

void HfKeys::only_layers(std::string_view type) {
  constexpr std::string_view kKey = "layer_types";
  const nlohmann::json wanted = std::vector<std::string>(config.n_layers, std::string(type));
  if (exporting()) return say(kKey, wanted);
  if (!has(kKey) || *find(kKey) != wanted)
    fail(kKey, "not supported here: expected " + std::string(type) + " for each layer");
}

void HfKeys::copy_windowed_head_size() {
  constexpr std::string_view kSuffixes[] = {
      "attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"};
  if (exporting()) {
    const std::uint32_t size = keys_->get_or(kSuffixes[0], config.head_dim, 1, limits::kEmbedding);
    for (const std::string_view suffix : kSuffixes)
      if (keys_->get_or(suffix, size, 1, limits::kEmbedding) != size)
        fail(suffix, "expected the size of a head, " + std::to_string(size));
    return say("head_dim", size);
  }
  for (const char* suffix : {"attention.key_length", "attention.value_length"})
    set(suffix, config.head_dim);
  for (const std::string_view suffix : kSuffixes) set(suffix, uint("head_dim", limits::kEmbedding));
}

void HfKeys::copy_kv_heads_of_kinds(std::uint32_t period) {
  if (exporting()) return say_kv_heads_of_kinds(period);
  constexpr std::string_view kKey = "num_global_key_value_heads";
  if (!flag_or("attention_k_eq_v", false) || !has(kKey)) return;
  std::vector<std::uint32_t> heads;
  for (const bool window : windowed(period))
    heads.push_back(window ? config.n_kv_heads : uint(kKey, limits::kHeads));
  set("attention.head_count_kv", GgufArray::of(heads));
}

void HfKeys::say_kv_heads_of_kinds(std::uint32_t period) {
  constexpr std::string_view kSuffix = "attention.head_count_kv";
  const std::vector<bool> windows = windowed_layers(*keys_, config.n_layers, period);
  const std::vector<std::uint32_t> heads = keys_->per_layer(kSuffix, 1, limits::kHeads);
  std::uint32_t of_kind[2] = {0, 0};  // without and with a window
  bool values = true;
  for (std::uint32_t i = 0; i < config.n_layers; ++i) {
    std::uint32_t& others = of_kind[windows[i] ? 1 : 0];
    if (others != 0 && others != heads[i])
      fail(kSuffix, "expected the same in all layers of a kind");
    others = heads[i];
    const std::string layer = "blk." + std::to_string(i) + ".attn_";
    values = values && (has_tensor(layer + "v.weight") || !has_tensor(layer + "k.weight"));
  }
  const std::uint32_t usual = of_kind[1] != 0 ? of_kind[1] : of_kind[0];
  say("num_key_value_heads", usual);
  say("attention_k_eq_v", !values);
  say("num_global_key_value_heads", nullptr);
  if (of_kind[0] == 0 || of_kind[0] == usual) return;
  if (values) fail(kSuffix, "expected the same in all layers that have values");
  say("num_global_key_value_heads", of_kind[0]);
}

void HfKeys::copy_shared_layers() {
  constexpr std::string_view kShared = "num_kv_shared_layers", kWide = "use_double_wide_mlp";
  constexpr std::string_view kSharedSuffix = "attention.shared_kv_layers",
                             kSuffix = "feed_forward_length";
  copy_uint_or(kSharedSuffix, kShared, 0, config.n_layers - 1);
  const std::uint32_t shared = exporting() ? keys_->get_or(kSharedSuffix, 0, 0, limits::kLayers)
                                           : uint_or(kShared, 0, limits::kLayers);
  std::vector<std::uint32_t> widths(config.n_layers, config.n_ff);
  std::fill(widths.end() - shared, widths.end(), 2 * config.n_ff);
  if (!exporting()) {
    if (flag_or(kWide, false)) set(kSuffix, GgufArray::of(widths));
    return;
  }
  const std::vector<std::uint32_t> got = keys_->per_layer(kSuffix, 1, limits::kFeedForward);
  const bool same = std::ranges::all_of(got, [&](std::uint32_t n) { return n == config.n_ff; });
  if (!same && got != widths) fail(kSuffix, "expected twice the width in layers that share keys");
  say(kWide, !same);
}

void HfKeys::copy_ropes_of_kinds(float usual, float usual_windowed) {
  constexpr std::string_view kWindowed = "rope.freq_base_swa", kKey = "rope_parameters";
  if (!exporting()) {
    if (!has(kKey)) fail(kKey, "missing key");
    if (rope_number_or("rope_theta", 0) == 0) set("rope.freq_base", usual);
    return set(kWindowed, static_cast<float>(windowed_rope_base_or(usual_windowed)));
  }
  using Object = nlohmann::ordered_json;
  const auto base = static_cast<float>(config.rope_base);
  const bool part = config.rope_scaling.kind == HfRopeScaling::Kind::Proportional;
  Object full = {{"rope_type", part ? "proportional" : "default"},
                 {"rope_theta", unscaled(base, 1)}};
  if (part) full["partial_rotary_factor"] = config.rope_scaling.rotated_part;
  const Object windowed = {{"rope_type", "default"},
                           {"rope_theta", unscaled(keys_->positive_or(kWindowed, base), 1)}};
  say(kKey, {{"full_attention", full}, {"sliding_attention", windowed}});
  for (const char* older : {"rope_theta", "rope_scaling"}) leave_out(older);
}

}  // namespace cria
