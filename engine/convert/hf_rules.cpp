#include "engine/convert/hf_rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cria {

double HfImport::rope_number_or(std::string_view key, double fallback) const {
  for (const char* object : {"rope_parameters", "rope_scaling"}) {
    const SortedJson* rope = find(object);
    if (rope == nullptr || !rope->is_object()) continue;
    if (rope->contains("full_attention")) rope = &(*rope)["full_attention"];
    if (rope->is_object() && rope->contains(key))
      return JsonKeys(*rope, file(), object).number(key);
  }
  return fallback;
}

double HfImport::windowed_rope_base_or(double fallback) const {
  constexpr const char* kObject = "rope_parameters";
  const SortedJson* const types = find(kObject);
  if (types == nullptr || !types->is_object() || !types->contains("sliding_attention"))
    return fallback;
  const JsonKeys rope((*types)["sliding_attention"], file(), kObject);
  return rope.has("rope_theta") ? rope.positive("rope_theta") : fallback;
}

std::vector<std::uint32_t> HfImport::list(std::string_view key, std::uint64_t high) const {
  const SortedJson* const value = find(key);
  if (value == nullptr) return {};
  if (value->is_number()) return std::vector(config.n_layers, uint(key, 0, high));
  std::vector<std::uint32_t> out;
  if (!value->is_array() || value->size() != config.n_layers)
    fail(key, "expected one number for each of " + std::to_string(config.n_layers) + " layers");
  for (const SortedJson& item : *value) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > high)
      fail(key, "expected numbers from 0 to " + std::to_string(high) + ", got " + item.dump());
    out.push_back(item.get<std::uint32_t>());
  }
  return out;
}

std::vector<bool> HfImport::windowed(std::uint32_t period) const {
  std::vector<bool> layers;
  if (const SortedJson* const types = find("layer_types")) {
    if (!types->is_array() || types->size() != config.n_layers)
      fail("layer_types", "expected one name for each layer");
    for (const SortedJson& type : *types) {
      if (type != "sliding_attention" && type != "full_attention")
        fail("layer_types", "expected sliding_attention or full_attention, got " + type.dump());
      layers.push_back(type == "sliding_attention");
    }
    return layers;
  }
  constexpr const char* kPattern = "sliding_window_pattern";
  const SortedJson* const pattern = find(kPattern);
  const std::string letters = pattern != nullptr && pattern->is_string() ? *text(kPattern) : "";
  if (pattern != nullptr && letters.empty()) period = uint(kPattern, 1, limits::kLayers);
  for (std::uint32_t i = 0; i < config.n_layers; ++i)
    layers.push_back(letters.empty() ? i % period < period - 1
                                     : letters[i % letters.size()] == 'L');
  return layers;
}

std::uint64_t HfExport::cols_of(const std::string& name) const {
  for (std::uint32_t i = 0; i < config.n_layers; ++i)
    if (const TensorView* const tensor =
            file_.tensor("blk." + std::to_string(i) + "." + name + ".weight"))
      return tensor->cols();
  return 0;
}

namespace {

/// An integer if the value is one, as directories write it.
Json whole_or(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e9) return static_cast<std::int64_t>(value);
  return value;
}

Json unscaled(float value, double factor) {
  const double exact = value / factor, shortest = shortest_decimal(static_cast<float>(exact));
  const double number = static_cast<float>(shortest * factor) == value ? shortest : exact;
  return factor == 1 ? Json(number) : whole_or(number);
}

}  // namespace

void HfExport::set_number(std::string_view key, float value, double factor) {
  set(key, unscaled(value, factor));
}

namespace hf {

HfRule all(std::vector<HfRule> rules) {
  return {[rules](HfImport& k) {
            for (const HfRule& rule : rules)
              if (rule.to_gguf) rule.to_gguf(k);
          },
          [rules](HfExport& k) {
            for (const HfRule& rule : rules)
              if (rule.to_json) rule.to_json(k);
          }};
}

HfRule if_present(std::string_view key, const HfRule& rule) {
  return {[key, import = rule.to_gguf](HfImport& k) {
            if (k.has(key)) import(k);
          },
          rule.to_json};
}

HfRule number(std::string_view suffix, std::string_view key, std::optional<float> fallback) {
  return {[=](HfImport& k) { k.set(suffix, static_cast<float>(k.number(key))); },
          [=](HfExport& k) {
            if (!fallback && !k.keys.has(suffix)) k.fail(suffix, "missing key");
            k.set_number(key, k.keys.number_or(suffix, fallback.value_or(0)));
          }};
}

HfRule number_or(std::string_view suffix, std::string_view key, float fallback) {
  return {[=](HfImport& k) { k.set(suffix, static_cast<float>(k.number_or(key, fallback))); },
          number(suffix, key, fallback).to_json};
}

HfRule scale(std::string_view suffix, std::string_view key, Amount fallback, Amount factor) {
  return {[=](HfImport& k) { k.set(suffix, static_cast<float>(k.number(key) * factor(k.config))); },
          [=](HfExport& k) {
            const float value = k.keys.number_or(suffix, 0);
            k.set_number(key, value == 0 ? static_cast<float>(fallback(k.config)) : value,
                         factor(k.config));
          }};
}

HfRule quotient(std::string_view suffix, std::string_view key, Amount fallback, Amount dividend) {
  return {
      [=](HfImport& k) { k.set(suffix, static_cast<float>(dividend(k.config) / k.number(key))); },
      [=](HfExport& k) {
        const double value = k.keys.number_or(suffix, 0);
        k.set(key, whole_or(dividend(k.config) / (value == 0 ? fallback(k.config) : value)));
      }};
}

HfRule cap(std::string_view suffix, std::string_view key, float fallback) {
  return {[=](HfImport& k) { k.set(suffix, static_cast<float>(k.number_or(key, 0))); },
          [=](HfExport& k) {
            const float value = k.keys.number_or(suffix, fallback);
            value == 0 ? k.set(key, nullptr) : k.set_number(key, value);
          }};
}

HfRule integer(std::string_view suffix, std::string_view key, std::uint64_t high) {
  return {[=](HfImport& k) { k.set(suffix, k.uint(key, 0, high)); },
          [=](HfExport& k) { k.set(key, k.keys.get(suffix, 0, high)); }};
}

HfRule integer_if_present(std::string_view suffix, std::string_view key, std::uint64_t high) {
  return {if_present(key, integer(suffix, key, high)).to_gguf, [=](HfExport& k) {
            if (k.keys.has(suffix)) k.set(key, k.keys.get(suffix, 0, high));
          }};
}

HfRule integer_or(std::string_view suffix, std::string_view key, Amount fallback,
                  std::uint64_t high) {
  const auto by_default = [fallback](const HfConfig& config) {
    return static_cast<std::uint32_t>(fallback(config));
  };
  return {[=](HfImport& k) { k.set(suffix, k.uint_or(key, by_default(k.config), high)); },
          [=](HfExport& k) { k.set(key, k.keys.get_or(suffix, by_default(k.config), 0, high)); }};
}

HfRule flag_or(std::string_view suffix, std::string_view key, bool fallback) {
  return {[=](HfImport& k) { k.set(suffix, k.flag_or(key, fallback)); },
          [=](HfExport& k) { k.set(key, k.keys.flag_or(suffix, fallback)); }};
}

namespace {

constexpr const char* kUnsupported = "not supported here: expected ";
constexpr std::string_view kRouter = "ffn_gate_inp.weight";

}  // namespace

HfRule only(std::string_view key, bool value, bool missing) {
  return {[=](HfImport& k) {
            if (k.flag_or(key, missing) != value)
              k.fail(key, std::string(kUnsupported) + (value ? "true" : "false"));
          },
          [=](HfExport& k) { k.set(key, value); }};
}

HfRule only(std::string_view key, double value) {
  return {[=](HfImport& k) {
            const auto wanted = static_cast<float>(value);
            if (static_cast<float>(k.number_or(key, value)) != wanted)
              k.fail(key, kUnsupported + number_text(wanted) + ", got " + k.find(key)->dump());
          },
          [=](HfExport& k) { k.set_number(key, static_cast<float>(value)); }};
}

HfRule only_text(std::string_view key, std::string_view value) {
  return {[=](HfImport& k) {
            if (const std::string got = k.text(key).value_or(std::string(value)); got != value)
              k.fail(key, kUnsupported + std::string(value) + ", got '" + got + "'");
          },
          [=](HfExport& k) { k.set(key, value); }};
}

HfRule only_on(std::string_view key) {
  return {[=](HfImport& k) {
            const SortedJson* const value = k.find(key);
            if (value != nullptr && (*value == false || *value == 0))
              k.fail(key, std::string(kUnsupported) + "true");
          },
          [=](HfExport& k) { k.set(key, true); }};
}

HfRule only_layers(std::string_view type) {
  constexpr std::string_view kKey = "layer_types";
  const auto wanted = [type](const HfConfig& config) {
    return std::vector<std::string>(config.n_layers, std::string(type));
  };
  return {[=](HfImport& k) {
            if (!k.has(kKey) || *k.find(kKey) != wanted(k.config))
              k.fail(kKey, kUnsupported + std::string(type) + " for each layer");
          },
          [=](HfExport& k) { k.set(kKey, wanted(k.config)); }};
}

HfRule write(std::string_view key, Json value) {
  return {nullptr, [key, value = std::move(value)](HfExport& k) { k.set(key, value); }};
}

HfRule write_presence(std::string_view key, std::string_view tensor) {
  return {nullptr, [=](HfExport& k) { k.set(key, k.has_tensor(tensor)); }};
}

HfRule write_scaling(std::string_view key, Json value) {
  return {nullptr, [key, value = std::move(value)](HfExport& k) {
            Json& scaling = k.out["rope_scaling"];
            if (!scaling.is_null()) scaling[std::string(key)] = value;
          }};
}

HfRule write_unscaled() {
  return {nullptr, [](HfExport& k) {
            Json& scaling = k.out["rope_scaling"];
            if (scaling.is_null()) scaling = {{"rope_type", "default"}};
          }};
}

HfRule write_dense_layers() {
  return {nullptr, [](HfExport& k) {
            std::vector<std::uint32_t> dense;
            for (std::uint32_t i = 0; i < k.config.n_layers; ++i)
              if (!k.has_tensor(i, kRouter)) dense.push_back(i);
            k.set("decoder_sparse_step", 1);
            k.set("mlp_only_layers", dense);
          }};
}

HfRule renamed(std::vector<std::pair<std::string, std::string>> names) {
  return {nullptr, [names = std::move(names)](HfExport& k) {
            for (const auto& [from, to] : names) {
              k.out[to] = Json(k.out[from]);
              k.out.erase(from);
            }
          }};
}

HfRule drop_prediction() {
  return {nullptr, [](HfExport& k) {
            k.config.n_layers -= k.keys.get_or("nextn_predict_layers", 0, 0, k.config.n_layers - 1);
            k.set(k.config.model_class->layers_key, k.config.n_layers);
            k.set("num_nextn_predict_layers", 0);
          }};
}

// Export takes the width from the tensors: the key may be missing.
HfRule experts(std::string_view count, std::string_view used, std::string_view width) {
  constexpr std::string_view kWidth = "expert_feed_forward_length";
  return all({integer("expert_count", count, limits::kExperts),
              integer("expert_used_count", used, limits::kExperts),
              {[=](HfImport& k) { k.set(kWidth, k.uint(width, 0, limits::kFeedForward)); },
               [=](HfExport& k) {
                 static_cast<void>(k.keys.has(kWidth));
                 k.set(width, k.cols_of("ffn_down_exps"));
               }}});
}

HfRule shared_experts(std::string_view key) {
  constexpr std::string_view kCount = "expert_shared_count";
  return {[=](HfImport& k) { k.set(kCount, k.uint_or(key, 0, limits::kExperts)); },
          [=](HfExport& k) {
            static_cast<void>(k.keys.has(kCount));
            const std::uint64_t width = k.cols_of("ffn_down_exps");
            k.set(key, width == 0 ? 0 : k.cols_of("ffn_down_shexp") / width);
          }};
}

HfRule routed_experts(std::uint32_t gating) {
  constexpr std::string_view kGating = "expert_gating_func", kScale = "routed_scaling_factor",
                             kDense = "first_k_dense_replace",
                             kLeading = "leading_dense_block_count";
  return all(
      {experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
       {[=](HfImport& k) { k.set(kGating, gating); },
        [=](HfExport& k) {
          const std::uint32_t got = k.keys.get_or(kGating, 0, 0, 16);
          if (got != gating && (got != 0 || gating != 1))
            k.fail(kGating, "expected " + std::to_string(gating) + ", got " + std::to_string(got));
        }},
       shared_experts("n_shared_experts"),
       flag_or("expert_weights_norm", "norm_topk_prob", false),
       if_present(kScale, scale("expert_weights_scale", kScale)),
       {[=](HfImport& k) { k.set(kLeading, k.uint_or(kDense, 0, limits::kLayers)); },
        [=](HfExport& k) {
          static_cast<void>(k.keys.has(kLeading));
          std::uint32_t layer = 0;
          while (layer < k.config.n_layers && !k.has_tensor(layer, kRouter)) ++layer;
          k.set(kDense, layer);
          // The key means nothing if there is one group.
          static_cast<void>(k.keys.get_or("expert_group_used_count", 1, 0, limits::kExperts));
        }}});
}

// DeepSeek 3 has groups by default.
HfRule expert_groups() {
  const HfRule groups = all({integer("expert_group_count", "n_group", limits::kExperts),
                             integer("expert_group_used_count", "topk_group", limits::kExperts)});
  return {[=](HfImport& k) {
            if (k.uint_or("n_group", 1, limits::kExperts) > 1) groups.to_gguf(k);
          },
          [=](HfExport& k) {
            if (k.keys.get_or("expert_group_count", 1, 0, limits::kExperts) > 1)
              return groups.to_json(k);
            for (const char* key : {"n_group", "topk_group"}) k.set(key, 1);
          }};
}

namespace {

constexpr std::string_view kGgufSlidingWindow = "attention.sliding_window";

// Without keys, classes have the windows of their first models. Their code makes a mask of the
// window's length even if no layer uses it, and older versions follow the pattern.
void write_no_windows(HfExport& k) {
  k.set("sliding_window", k.config.n_ctx);
  k.set("sliding_window_pattern", 1);
  k.set("layer_types", std::vector<std::string>(k.config.n_layers, "full_attention"));
}

}  // namespace

HfRule windows(std::uint32_t period, Amount fallback, bool always) {
  return {[=](HfImport& k) {
            if (!k.has("sliding_window")) return;
            k.set(kGgufSlidingWindow, k.uint("sliding_window", 0, limits::kContext));
            const std::vector<bool> layers = k.windowed(period);
            bool usual = !always;
            for (std::uint32_t i = 0; i < k.config.n_layers; ++i)
              usual = usual && layers[i] == (i % period < period - 1);
            if (!usual) k.set("attention.sliding_window_pattern", GgufArray::of(layers));
          },
          [=](HfExport& k) {
            const auto usual = static_cast<std::uint32_t>(fallback(k.config));
            const std::uint32_t window =
                k.keys.get_or(kGgufSlidingWindow, usual, 0, limits::kContext);
            if (window == 0) return write_no_windows(k);
            k.set("sliding_window", window);
            Json types = Json::array();
            for (const bool layer : windowed_layers(k.keys, k.config.n_layers, period))
              types.push_back(layer ? "sliding_attention" : "full_attention");
            k.set("layer_types", std::move(types));
          }};
}

// Other readers know a window's length, but not always which layers have it.
HfRule windows_if_any(std::uint32_t period, bool write_none) {
  const HfRule rule = windows(period);
  return {[=](HfImport& k) {
            const bool any =
                k.has("sliding_window") && std::ranges::count(k.windowed(period), true) != 0;
            if (any) return rule.to_gguf(k);
            if (write_none) k.set(kGgufSlidingWindow, 0U);
          },
          rule.to_json};
}

HfRule unrotated(std::uint32_t period) {
  constexpr std::string_view kKey = "no_rope_layers";
  const auto usual = [period](const HfConfig& config) {
    std::vector<std::uint32_t> rotated;
    for (std::uint32_t i = 1; i <= config.n_layers; ++i) rotated.push_back(i % period == 0 ? 0 : 1);
    return rotated;
  };
  return {[=](HfImport& k) {
            if (k.has(kKey) && !k.find(kKey)->empty() && k.list(kKey, 1) != usual(k.config))
              k.fail(kKey, "expected 0 for every " + std::to_string(period) +
                               "th layer and 1 for the others");
          },
          [=](HfExport& k) { k.set(kKey, usual(k.config)); }};
}

HfRule rope_number(std::string_view suffix, std::string_view key, double factor) {
  return {[=](HfImport& k) {
            const double value = k.rope_number_or(key, 0);
            if (value != 0) k.set(suffix, static_cast<float>(value * factor));
          },
          [=](HfExport& k) {
            const float value = k.keys.number_or(suffix, 0);
            if (value != 0) k.out["rope_scaling"][std::string(key)] = unscaled(value, factor);
          }};
}

HfRule mscale(double factor) {
  constexpr std::string_view kSuffix = "rope.scaling.yarn_log_multiplier", kAll = "mscale_all_dim";
  return all({{[=](HfImport& k) {
                 const double both = k.rope_number_or(kAll, 0);
                 if (k.rope_number_or("mscale", both) != both)
                   k.fail("rope_scaling", "mscale: expected the same as mscale_all_dim");
               },
               nullptr},
              rope_number(kSuffix, kAll, factor),
              {nullptr, rope_number(kSuffix, "mscale", factor).to_json}});
}

// Newer GGUF files have head sizes in separate keys, and the sizes of the KV cache in the usual
// ones.
HfRule latent_attention() {
  const HfRule rank = integer("attention.kv_lora_rank", "kv_lora_rank", limits::kEmbedding);
  const HfRule q_rank =
      integer_if_present("attention.q_lora_rank", "q_lora_rank", limits::kEmbedding);
  const auto size = [](const HfExport& k, const std::string& suffix) {
    return k.keys.get(k.keys.has(suffix + "_mla") ? suffix + "_mla" : suffix, 1,
                      limits::kEmbedding);
  };
  return all({mscale(0.1),
              {[=](HfImport& k) {
                 const std::uint32_t rotated = k.uint("qk_rope_head_dim", 0, limits::kEmbedding);
                 rank.to_gguf(k);
                 q_rank.to_gguf(k);
                 HfConfig& c = k.config;
                 c.latent_keys = k.uint("qk_nope_head_dim", 1, limits::kEmbedding);
                 c.latent_values = k.uint("v_head_dim", 1, limits::kEmbedding);
                 const std::string own = c.model_class->split_latent ? "_mla" : "";
                 k.set("attention.key_length" + own, c.latent_keys + rotated);
                 k.set("attention.value_length" + own, c.latent_values);
                 if (!own.empty()) {  // of the cache
                   const std::uint32_t latent = k.uint("kv_lora_rank", 1, limits::kEmbedding);
                   k.set("attention.key_length", latent + rotated);
                   k.set("attention.value_length", latent);
                 }
                 k.set("rope.dimension_count", rotated);
               },
               [=](HfExport& k) {
                 const std::uint32_t rotated = k.config.n_rot,
                                     head = size(k, "attention.key_length");
                 if (head <= rotated)
                   k.fail("attention.key_length", "expected more than the rotated part");
                 k.out.erase("head_dim");
                 k.set("num_key_value_heads", k.config.n_heads);
                 k.set("qk_rope_head_dim", rotated);
                 k.set("qk_nope_head_dim", head - rotated);
                 k.set("v_head_dim", size(k, "attention.value_length"));
                 rank.to_json(k);
                 k.set("q_lora_rank", nullptr);
                 q_rank.to_json(k);
               }}});
}

}  // namespace hf
}  // namespace cria
