// A config.json read into an HfConfig, each key checked where it is read.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/hf/config.h"
#include "model/limits.h"

namespace cria {
namespace {

using Json = nlohmann::json;
using Kind = HfRopeScaling::Kind;

std::string names_of(HfClasses classes) {
  std::string out;
  for (const HfClass* one : classes) out += (out.empty() ? "" : ", ") + std::string(one->name);
  return out;
}

const HfClass* find_class(HfClasses classes, std::string_view name) {
  const auto found =
      std::ranges::find_if(classes, [&](const HfClass* one) { return one->name == name; });
  return found == classes.end() ? nullptr : *found;
}

bool lists(std::string_view names, std::string_view name) {
  return (" " + std::string(names) + " ").find(" " + std::string(name) + " ") != std::string::npos;
}

/// Reads the keys of config.json, each checked where it is read.
class ConfigReader {
 public:
  ConfigReader(const Json& json, const std::string& file, HfClasses classes, HfConfig& out)
      : json_(json), file_(file), classes_(classes), out_(out) {}

  void read() {
    if (!json_.is_object()) throw Error(file_, "bad config: expected a JSON object");
    model_class();
    sizes();
    rope();
    window();
    flags();
    special_tokens();
    packing();
  }

 private:
  void model_class() {
    const Json* const list = find("architectures");
    std::string name;
    if (list != nullptr && list->is_array() && !list->empty() && list->front().is_string())
      name = list->front().get<std::string>();
    out_.model_class = find_class(classes_, name);
    if (out_.model_class == nullptr)
      fail("architectures",
           "unknown class of model: expected " + names_of(classes_) + ", got '" + name + "'");
  }

  void sizes() {
    out_.n_layers = get(has("num_layers") ? "num_layers" : "num_hidden_layers", limits::kLayers);
    out_.n_embd = get("hidden_size", limits::kEmbedding);
    out_.n_heads = get("num_attention_heads", limits::kHeads);
    out_.n_kv_heads =
        has("num_key_value_heads") ? get("num_key_value_heads", limits::kHeads) : out_.n_heads;
    out_.n_ff = get("intermediate_size", limits::kFeedForward);
    out_.n_vocab = get("vocab_size", limits::kVocabulary);
    out_.n_ctx = get("max_position_embeddings", limits::kContext);
    const HfClass& own = *out_.model_class;
    const std::string eps(own.eps);
    out_.norm_eps =
        has(eps.c_str()) ? static_cast<float>(number(json_, eps.c_str())) : own.usual_eps;
    if (out_.n_kv_heads > out_.n_heads || out_.n_heads % out_.n_kv_heads != 0)
      fail("num_key_value_heads", "KV heads do not divide the heads: expected a divisor of " +
                                      std::to_string(out_.n_heads) + ", got " +
                                      std::to_string(out_.n_kv_heads));
    const std::string head_dim(own.head_dim);
    if (has(head_dim.c_str())) {
      out_.head_dim = get(head_dim.c_str(), limits::kEmbedding);
    } else if (out_.n_embd % out_.n_heads == 0) {
      out_.head_dim = out_.n_embd / out_.n_heads;
    } else {
      fail("hidden_size", "not a multiple of the heads: expected a multiple of " +
                              std::to_string(out_.n_heads) + ", got " +
                              std::to_string(out_.n_embd));
    }
    if (out_.head_dim % 2 != 0)
      fail(head_dim,
           "odd size of a head: expected an even number, got " + std::to_string(out_.head_dim));
  }

  /// Before version 5 of transformers "rope_theta" and "rope_scaling", since then both in
  /// "rope_parameters".
  void rope() {
    const Json* const joined = rope_parameters();
    const Json* const scaling = joined != nullptr ? joined : find("rope_scaling");
    if (joined != nullptr && joined->is_object() && joined->contains("rope_theta"))
      out_.rope_base = positive(*joined, "rope_theta");
    else if (has("rope_theta"))
      out_.rope_base = positive(json_, "rope_theta");
    rotated_part(is_proportional(joined) ? nullptr : joined);
    if (scaling == nullptr) return;
    if (!scaling->is_object()) fail("rope_scaling", "wrong type: expected an object");
    rope_scaling(*scaling);
  }

  [[nodiscard]] bool is_proportional(const Json* rope) const {
    return out_.model_class->proportional && rope != nullptr && rope->is_object() &&
           text(*rope, "rope_type") == "proportional";
  }

  /// Of the layers without a window, where each type of layers has its own. The others may have
  /// another base.
  const Json* rope_parameters() {
    const char* const key = "rope_parameters";
    const Json* const joined = find(key);
    if (joined == nullptr || !joined->is_object() ||
        !(joined->contains("full_attention") || joined->contains("sliding_attention")))
      return joined;
    if (!out_.model_class->ropes_by_type)
      fail(key, "a rotation for each type of layers is not supported in this class of models");
    for (const char* type : {"full_attention", "sliding_attention"})
      if (!joined->contains(type) || !(*joined)[type].is_object())
        fail(key, std::string(type) + ": expected an object");
    const Json& windowed = (*joined)["sliding_attention"];
    const std::string kind = text(windowed, "rope_type").value_or("default");
    if (kind != "default")
      fail(key, "scaling in layers with a window is not supported: expected default, got '" + kind +
                    "'");
    if (const char* const part = "partial_rotary_factor";
        windowed.contains(part) && !windowed[part].is_null() && positive(windowed, part) != 1)
      fail(key,
           "heads that are rotated in part in layers with a window are not supported: expected 1");
    return &(*joined)["full_attention"];
  }

  void rotated_part(const Json* joined) {
    const char* const key = "partial_rotary_factor";
    const bool inside = joined != nullptr && joined->is_object() && joined->contains(key);
    const double part = inside     ? positive(*joined, key)
                        : has(key) ? positive(json_, key)
                                   : out_.model_class->usual_part;
    if (part != 1 && !out_.model_class->partial_rotation)
      fail(key, "heads that are rotated in part are not supported: expected 1");
    if (part > 1) fail(key, "out of range: expected at most 1");
    out_.n_rot = static_cast<std::uint32_t>(part * out_.head_dim);
    if (out_.n_rot == 0 || out_.n_rot % 2 != 0)
      fail(key, "odd RoPE dimension: expected an even number, got " + std::to_string(out_.n_rot));
  }

  std::vector<float> factors(const Json& from, const char* key) {
    std::vector<float> list;
    if (!from.contains(key) || !from[key].is_array())
      fail("rope_scaling", std::string(key) + " is missing");
    for (const Json& item : from[key]) {
      if (!item.is_number() || !(item.get<float>() > 0) || !std::isfinite(item.get<float>()))
        fail("rope_scaling", std::string(key) + ": expected finite numbers above 0");
      list.push_back(item.get<float>());
    }
    if (list.size() != out_.n_rot / 2)
      fail("rope_scaling", std::string(key) + ": expected " + std::to_string(out_.n_rot / 2) +
                               " numbers, got " + std::to_string(list.size()));
    return list;
  }

  // Phi keeps the original context outside.
  void longrope(const Json& from) {
    constexpr const char *kShortMagnitude = "short_mscale", *kLongMagnitude = "long_mscale";
    HfRopeScaling& to = out_.rope_scaling;
    to.kind = Kind::LongRope;
    const char* const original = "original_max_position_embeddings";
    to.original_context = has(original)             ? get(original, limits::kContext)
                          : from.contains(original) ? uint(from, original, 1, limits::kContext)
                                                    : out_.n_ctx;
    to.short_factors = factors(from, "short_factor");
    to.long_factors = factors(from, "long_factor");
    if (from.contains("attention_factor") && !from["attention_factor"].is_null())
      to.attention_factor = positive(from, "attention_factor");
    if (out_.model_class->longrope == HfLongRope::Magnitudes && from.contains(kLongMagnitude)) {
      to.attention_factor = positive(from, kLongMagnitude);
      if (positive(from, kShortMagnitude) != *to.attention_factor)
        fail("rope_scaling", "short_mscale: expected the same as long_mscale");
    }
  }

  void proportional(const Json& from) {
    const char* const key = "partial_rotary_factor";
    HfRopeScaling& to = out_.rope_scaling;
    to.kind = Kind::Proportional;
    to.rotated_part = from.contains(key) ? positive(from, key) : 1;
    if (to.rotated_part > 1) fail(key, "out of range: expected at most 1");
    if (from.contains("factor") && positive(from, "factor") != 1)
      fail("rope_scaling", "a factor of a rotation in part is not supported: expected 1");
  }

  /// YaRN's magnitude where both its scales are said, the usual one where not.
  std::optional<double> magnitude_of_scales(const Json& from) const {
    double magnitudes[2];
    for (const int i : {0, 1}) {
      const char* const key = i == 0 ? "mscale" : "mscale_all_dim";
      if (!from.contains(key) || from[key].is_null() || from[key] == 0) return std::nullopt;
      magnitudes[i] =
          1 + 0.1 * positive(from, key) * std::log(std::max(1.0, out_.rope_scaling.factor));
    }
    return magnitudes[0] / magnitudes[1];
  }

  void yarn(const Json& from) {
    HfRopeScaling& to = out_.rope_scaling;
    const auto optional = [&](const char* key) {
      return from.contains(key) && !from[key].is_null() ? std::optional(positive(from, key))
                                                        : std::nullopt;
    };
    to.attention_factor = optional("attention_factor");
    to.beta_fast = optional("beta_fast");
    to.beta_slow = optional("beta_slow");
    constexpr const char* kMultiplier = "mscale_all_dim";
    if (!out_.model_class->mscale) {
      if (!to.attention_factor) to.attention_factor = magnitude_of_scales(from);
    } else if (from.contains(kMultiplier) && from[kMultiplier] != 0) {
      to.log_multiplier = optional(kMultiplier).value_or(0);
    }
    if (!to.attention_factor && out_.usual_magnitude() != out_.yarn_magnitude())
      to.attention_factor = out_.usual_magnitude();
  }

  void rope_scaling(const Json& from) {
    HfRopeScaling& to = out_.rope_scaling;
    const std::string kind =
        text(from, "rope_type").value_or(text(from, "type").value_or("default"));
    if (kind == "default") return;
    if (is_proportional(&from)) return proportional(from);
    if (out_.model_class->longrope != HfLongRope::None && (kind == "longrope" || kind == "su"))
      return longrope(from);
    if (kind == "dynamic") {
      out_.warnings.emplace_back(
          "rope_scaling \"dynamic\" is left out: it matters only beyond the trained context");
      return;
    }
    to.kind = kind == "linear"   ? Kind::Linear
              : kind == "yarn"   ? Kind::Yarn
              : kind == "llama3" ? Kind::Llama3
                                 : Kind::None;
    if (to.kind == Kind::None)
      fail("rope_scaling",
           "unknown RoPE scaling: expected default, linear, dynamic, yarn or llama3, got '" + kind +
               "'");
    to.factor = positive(from, "factor");
    if (to.kind == Kind::Linear) return;
    const char* const original = "original_max_position_embeddings";
    to.original_context =
        from.contains(original) ? uint(from, original, 1, limits::kContext) : out_.n_ctx;
    if (to.kind == Kind::Yarn) return yarn(from);
    to.low_freq_factor = positive(from, "low_freq_factor");
    to.high_freq_factor = positive(from, "high_freq_factor");
    if (to.high_freq_factor < to.low_freq_factor)
      fail("rope_scaling", "high_freq_factor is below low_freq_factor");
  }

  void window() {
    const bool used = !has("use_sliding_window") || flag("use_sliding_window");
    const bool by_default = out_.model_class->window_by_default;  // Qwen2 has to say so
    if (has("sliding_window") && used && (by_default || has("use_sliding_window")))
      out_.sliding_window = get("sliding_window", limits::kContext);
  }

  void flags() {
    const HfClass& own = *out_.model_class;
    out_.tied_embeddings = has("tie_word_embeddings") ? flag("tie_word_embeddings") : own.tied;
    out_.attention_bias = own.attention_bias || flag("attention_bias");
    out_.mlp_bias = flag("mlp_bias");
    if (out_.mlp_bias && !own.mlp_bias)
      fail("mlp_bias", "biases in the feed-forward part are not supported: expected false");
    const char* const key = has("hidden_activation")     ? "hidden_activation"
                            : has("activation_function") ? "activation_function"
                                                         : "hidden_act";
    const std::string usual(own.activations.substr(0, own.activations.find(' ')));
    const std::string activation = text(json_, key).value_or(usual);
    if (!lists(own.activations, activation))
      fail(key, "unknown activation: expected " + usual + ", got '" + activation + "'");
  }

  void special_tokens() {
    if (const Json* const bos = find("bos_token_id"); bos != nullptr && bos->is_number_unsigned())
      out_.bos = uint(json_, "bos_token_id", 0, limits::kVocabulary);
    const Json* const eos = find("eos_token_id");
    if (eos == nullptr) return;
    for (const Json& id : eos->is_array() ? *eos : Json::array({*eos})) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > limits::kVocabulary)
        fail("eos_token_id", "bad token id: expected a number or a list of them");
      out_.eos.push_back(id.get<std::uint32_t>());
    }
  }

  /// MLX writes "quantization", newer versions the same again as "quantization_config"; the latter
  /// alone is of others.
  void packing() {
    const Json* const packed = find("quantization");
    if (packed == nullptr) {
      const Json* const other = find("quantization_config");
      if (other == nullptr) return;
      if (other->is_object() && !out_.model_class->quantization.empty() &&
          text(*other, "quant_method") == out_.model_class->quantization)
        return;
      fail("quantization_config",
           "weights quantized in this way are not read: expected floats or MLX's affine form, got "
           "'" +
               (other->is_object() ? text(*other, "quant_method").value_or("?") : "?") + "'");
    }
    if (!packed->is_object()) fail("quantization", "wrong type: expected an object");
    out_.packing = one_packing(*packed);
    for (const auto& [tensor, how] : packed->items()) {
      if (how.is_object())
        out_.other_packing[tensor] = one_packing(how);
      else if (how.is_boolean() && !how.get<bool>())
        out_.other_packing[tensor] = std::nullopt;
    }
  }

  [[nodiscard]] MlxPacking one_packing(const Json& from) const {
    if (const std::string mode = text(from, "mode").value_or("affine"); mode != "affine")
      fail("quantization", "unknown mode: expected affine, got '" + mode + "'");
    const auto or_default = [&](const char* key, std::uint32_t value, std::uint64_t high) {
      return from.contains(key) ? uint(from, key, 1, high) : value;
    };
    const MlxPacking packing{or_default("group_size", 64, limits::kEmbedding),
                             or_default("bits", 4, 8)};
    if (packing.bits == 7 || packing.bits == 1)
      fail("quantization",
           "bad number of bits: expected 2, 3, 4, 5, 6 or 8, got " + std::to_string(packing.bits));
    return packing;
  }

  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] bool has(const char* key) const { return find(key) != nullptr; }

  [[nodiscard]] std::uint32_t get(const char* key, std::uint64_t high) const {
    return uint(json_, key, 1, high);
  }

  [[nodiscard]] std::uint32_t uint(const Json& from, const char* key, std::uint64_t low,
                                   std::uint64_t high) const {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) fail(key, "missing key");
    // 8192.0 stands for 8192 in some files.
    const bool whole = found->is_number_float() &&
                       found->get<double>() == std::floor(found->get<double>()) &&
                       found->get<double>() >= 0 && found->get<double>() < 1e15;
    if (!found->is_number_unsigned() && !whole)
      fail(key, "wrong type: expected a number, got " + found->dump());
    const auto value =
        whole ? static_cast<std::uint64_t>(found->get<double>()) : found->get<std::uint64_t>();
    if (value < low || value > high)
      fail(key, "out of range: expected " + std::to_string(low) + " to " + std::to_string(high) +
                    ", got " + std::to_string(value));
    return static_cast<std::uint32_t>(value);
  }

  [[nodiscard]] double number(const Json& from, const char* key) const {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_number()) fail(key, "missing, or no number");
    return found->get<double>();
  }
  [[nodiscard]] double positive(const Json& from, const char* key) const {
    const double value = number(from, key);
    if (!std::isfinite(value) || value <= 0 || value > 1e30)
      fail(key, "bad number: expected a finite number above 0, got " + std::to_string(value));
    return value;
  }
  [[nodiscard]] bool flag(const char* key) const {
    const Json* const value = find(key);
    if (value != nullptr && !value->is_boolean()) fail(key, "wrong type: expected true or false");
    return value != nullptr && value->get<bool>();
  }
  [[nodiscard]] std::optional<std::string> text(const Json& from, const char* key) const {
    const auto found = from.find(key);
    if (found == from.end() || found->is_null()) return std::nullopt;
    if (!found->is_string()) fail(key, "wrong type: expected a string");
    return found->get<std::string>();
  }

  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw Error(file_, message, "key " + key);
  }

  const Json& json_;
  const std::string& file_;
  HfClasses classes_;
  HfConfig& out_;
};

}  // namespace

HfConfig HfConfig::from_json(const Json& json, const std::string& file, HfClasses classes) {
  HfConfig config;
  ConfigReader(json, file, classes, config).read();
  return config;
}

}  // namespace cria
