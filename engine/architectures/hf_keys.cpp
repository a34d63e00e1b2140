#include "engine/architectures/hf_keys.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace cria {

using Json = nlohmann::json;

HfKeys::HfKeys(const Json& json, const std::string& file, HfConfig& model_config, GgufWriter& writer)
    : config(model_config), json_(json), file_(file), writer_(writer) {}

const Json* HfKeys::find(std::string_view key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void HfKeys::fail(std::string_view key, const std::string& message) const {
  throw Error(file_, message, "key " + std::string(key));
}

std::uint32_t HfKeys::uint(std::string_view key, std::uint64_t high) const {
  const Json* const value = find(key);
  if (value == nullptr) fail(key, "missing key");
  if (!value->is_number_unsigned()) fail(key, "wrong type: expected a number, got " + value->dump());
  if (value->get<std::uint64_t>() > high)
    fail(key, "out of range: expected 0 to " + std::to_string(high) + ", got " + value->dump());
  return value->get<std::uint32_t>();
}

std::uint32_t HfKeys::uint_or(std::string_view key, std::uint32_t fallback, std::uint64_t high) const {
  return has(key) ? uint(key, high) : fallback;
}

double HfKeys::number(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr || !value->is_number()) fail(key, "missing, or no number");
  const double number = value->get<double>();
  if (!std::isfinite(static_cast<float>(number))) fail(key, "bad number: expected a finite number");
  return number;
}

double HfKeys::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool HfKeys::flag_or(std::string_view key, bool fallback) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_boolean()) fail(key, "wrong type: expected true or false");
  return value == nullptr ? fallback : value->get<bool>();
}

std::string HfKeys::text_or(std::string_view key, std::string fallback) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_string()) fail(key, "wrong type: expected a string");
  return value == nullptr ? std::move(fallback) : value->get<std::string>();
}

double HfKeys::rope_number_or(std::string_view key, double fallback) const {
  for (const char* object : {"rope_parameters", "rope_scaling"}) {
    const Json* const rope = find(object);
    if (rope == nullptr || !rope->is_object() || !rope->contains(key)) continue;
    const Json& value = (*rope)[std::string(key)];
    if (!value.is_number() || !std::isfinite(value.get<float>()))
      fail(object, std::string(key) + ": expected a finite number");
    return value.get<double>();
  }
  return fallback;
}

std::vector<std::uint32_t> HfKeys::list(std::string_view key) const {
  const Json* const value = find(key);
  std::vector<std::uint32_t> out;
  if (value == nullptr) return out;
  if (!value->is_array() || value->size() != config.n_layers)
    fail(key, "expected a list of a number for each of " + std::to_string(config.n_layers) + " layers");
  for (const Json& item : *value) {
    if (!item.is_number_unsigned()) fail(key, "wrong type: expected numbers, got " + item.dump());
    out.push_back(item.get<std::uint32_t>());
  }
  return out;
}

void HfKeys::set(std::string_view suffix, GgufData value) {
  writer_.set(std::string(config.model_class->arch) + "." + std::string(suffix), std::move(value));
}

void HfKeys::experts(std::string_view count, std::string_view used, std::string_view width) {
  set("expert_count", uint(count, limits::kExperts));
  set("expert_used_count", uint(used, limits::kExperts));
  set("expert_feed_forward_length", uint(width, limits::kFeedForward));
}

void HfKeys::routed_experts(std::uint32_t gating) {
  experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size");
  set("expert_shared_count", uint_or("n_shared_experts", 0, limits::kExperts));
  set("expert_gating_func", gating);
  set("expert_weights_norm", flag_or("norm_topk_prob", false));
  set("expert_weights_scale", static_cast<float>(number_or("routed_scaling_factor", 1)));
  set("leading_dense_block_count", uint_or("first_k_dense_replace", 0, limits::kLayers));
  const std::uint32_t groups = uint_or("n_group", 1, limits::kExperts);
  if (groups <= 1) return;
  set("expert_group_count", groups);
  set("expert_group_used_count", uint("topk_group", limits::kExperts));
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
  const std::string letters = pattern != nullptr && pattern->is_string() ? pattern->get<std::string>() : "";
  if (pattern != nullptr && letters.empty()) {
    period = uint("sliding_window_pattern", limits::kLayers);
    if (period == 0) fail("sliding_window_pattern", "out of range: expected 1 or more");
  }
  for (std::uint32_t i = 0; i < config.n_layers; ++i)
    layers.push_back(letters.empty() ? i % period < period - 1 : letters[i % letters.size()] == 'L');
  return layers;
}

void HfKeys::windows(std::uint32_t period) {
  if (!has("sliding_window")) return;
  set("attention.sliding_window", uint("sliding_window", limits::kContext));
  const std::vector<bool> layers = windowed(period);
  for (std::uint32_t i = 0; i < config.n_layers; ++i) {
    if (layers[i] == (i % period < period - 1)) continue;
    return set("attention.sliding_window_pattern", GgufArray::of(layers));
  }
}

void HfKeys::only(std::string_view key, bool value) const {
  if (flag_or(key, value) != value)
    fail(key, std::string("not supported here: expected ") + (value ? "true" : "false"));
}

void HfKeys::only(std::string_view key, double value) const {
  if (static_cast<float>(number_or(key, value)) != static_cast<float>(value))
    fail(key, "not supported here: expected " + number_text(static_cast<float>(value)) + ", got " +
                  find(key)->dump());
}

}  // namespace cria
