// Reads config.json into an HfConfig and checks each key.
#include <algorithm>
#include <cmath>

#include "engine/convert/hf_config.h"
#include "engine/convert/json_keys.h"
#include "model/limits.h"

namespace cria {
namespace {

using Kind = HfRopeScaling::Kind;

constexpr const char* kOriginal = "original_max_position_embeddings";
// Recurrent models have no limit of their own: what other converters write.
constexpr std::uint32_t kContextOfStates = 1U << 20;
constexpr const char* kPart = "partial_rotary_factor";

std::string names_of(std::span<const HfClass> classes) {
  std::string out;
  for (const HfClass& one : classes) out += (out.empty() ? "" : ", ") + std::string(one.name);
  return out;
}

bool lists(std::string_view names, std::string_view name) {
  return (" " + std::string(names) + " ").find(" " + std::string(name) + " ") != std::string::npos;
}

class ConfigReader : JsonKeys {
 public:
  ConfigReader(const SortedJson& json, const std::string& file, HfConfig& out)
      : JsonKeys(json, file), out_(out) {}

  void read(std::span<const HfClass> classes) {
    model_class(classes);
    sizes();
    if (out_.model_class->attention) rope();
    window();
    flags();
    special_tokens();
    packing();
  }

 private:
  void model_class(std::span<const HfClass> classes) {
    const SortedJson* const list = find("architectures");
    std::string name;
    if (list != nullptr && list->is_array() && !list->empty() && list->front().is_string())
      name = list->front().get<std::string>();
    const auto found = std::ranges::find_if(classes, [&](const HfClass& one) {
      return one.name == name && (one.only_with.empty() || has_layers(one.only_with));
    });
    if (found == classes.end())
      fail("architectures",
           "unknown class of model: expected " + names_of(classes) + ", got '" + name + "'");
    out_.model_class = &*found;
  }

  [[nodiscard]] bool has_layers(std::string_view type) const {
    if (const SortedJson* const number = find(type); number != nullptr && number->is_number())
      return *number > 0;
    const SortedJson* const types = find("layer_types");
    if (types != nullptr && types->is_array())
      return std::ranges::count(*types, SortedJson(type)) != 0;
    return text("hybrid_override_pattern").value_or("").find(type) != std::string::npos;
  }

  [[nodiscard]] std::uint32_t size(std::string_view key, std::uint64_t high) const {
    return uint(key, 1, high);
  }

  void sizes() {
    const HfClass& own = *out_.model_class;
    out_.n_layers = size(has("num_layers") ? "num_layers" : "num_hidden_layers", limits::kLayers);
    out_.n_embd = size("hidden_size", limits::kEmbedding);
    out_.n_vocab = size("vocab_size", limits::kVocabulary);
    out_.norm_eps = has(own.eps) ? static_cast<float>(number(own.eps)) : own.default_eps;
    constexpr const char* kContext = "max_position_embeddings";
    const bool unlimited = !own.attention && !has(kContext);
    out_.n_ctx = unlimited ? kContextOfStates : size(kContext, limits::kContext);
    if (own.attention) heads();
  }

  void heads() {
    const HfClass& own = *out_.model_class;
    const std::uint32_t heads = out_.n_heads = size("num_attention_heads", limits::kHeads);
    constexpr const char* kKvHeads = "num_key_value_heads";
    out_.n_kv_heads = has(kKvHeads) ? size(kKvHeads, limits::kHeads) : heads;
    constexpr const char* kWidth = "intermediate_size";
    const SortedJson* const widths = find(kWidth);
    const bool by_layer = own.by_layer && widths != nullptr && widths->is_array() &&
                          !widths->empty() && widths->front().is_number_unsigned() &&
                          widths->front() <= limits::kFeedForward;  // a rule reads the others
    out_.n_ff =
        by_layer ? widths->front().get<std::uint32_t>() : size(kWidth, limits::kFeedForward);
    if (out_.n_kv_heads > heads || heads % out_.n_kv_heads != 0)
      fail(kKvHeads, "KV heads do not divide the heads: expected a divisor of " +
                         std::to_string(heads) + ", got " + std::to_string(out_.n_kv_heads));
    if (has(own.head_dim))
      out_.head_dim = size(own.head_dim, limits::kEmbedding);
    else if (out_.n_embd % heads == 0)
      out_.head_dim = out_.n_embd / heads;
    else
      fail("hidden_size", "expected a multiple of the " + std::to_string(heads) + " heads, got " +
                              std::to_string(out_.n_embd));
    if (out_.head_dim % 2 != 0)
      fail(own.head_dim,
           "odd head size: expected an even number, got " + std::to_string(out_.head_dim));
  }

  /// Before version 5 of transformers: "rope_theta" and "rope_scaling"; since then
  /// "rope_parameters" has both.
  void rope() {
    const SortedJson* const joined = rope_parameters();
    const SortedJson* const scaling = joined != nullptr ? joined : find("rope_scaling");
    const std::string within = joined != nullptr ? "rope_parameters" : "rope_scaling";
    if (scaling != nullptr && !scaling->is_object()) fail(within, "wrong type: expected an object");
    std::optional<JsonKeys> inner;
    if (scaling != nullptr) inner.emplace(*scaling, file(), within);
    const bool inside = joined != nullptr && joined->contains("rope_theta");
    if (inside || has("rope_theta"))
      out_.rope_base = (inside ? *inner : *this).positive("rope_theta");
    const bool part = joined != nullptr && joined->contains(kPart) && !is_proportional(*inner);
    rotated_part(part ? *inner : *this);
    if (inner) rope_scaling(*inner);
  }

  [[nodiscard]] bool is_proportional(const JsonKeys& rope) const {
    return out_.model_class->proportional && rope.text("rope_type") == "proportional";
  }

  /// The parameters of layers without a window, if they differ by layer type.
  const SortedJson* rope_parameters() {
    constexpr const char* kKey = "rope_parameters";
    const SortedJson* const joined = find(kKey);
    if (joined == nullptr || !joined->is_object() ||
        !(joined->contains("full_attention") || joined->contains("sliding_attention")))
      return joined;
    if (!out_.model_class->ropes_by_type)
      fail(kKey, "RoPE that differs by layer type is not supported in this class of models");
    for (const char* type : {"full_attention", "sliding_attention"})
      if (!joined->contains(type) || !(*joined)[type].is_object())
        fail(kKey, std::string(type) + ": expected an object");
    const JsonKeys windowed((*joined)["sliding_attention"], file(), kKey);
    const std::string kind = windowed.text("rope_type").value_or("default");
    if (kind != "default")
      fail(kKey, "RoPE scaling in sliding-window layers is not supported: expected default, got '" +
                     kind + "'");
    if (windowed.has(kPart) && windowed.positive(kPart) != 1)
      fail(kKey, "partial rotation in sliding-window layers is not supported: expected 1");
    return &(*joined)["full_attention"];
  }

  void rotated_part(const JsonKeys& from) {
    const double part = from.has(kPart) ? from.positive(kPart) : out_.model_class->default_part;
    if (part != 1 && !out_.model_class->partial_rotation)
      fail(kPart, "partial rotation of heads is not supported: expected 1");
    if (part > 1) fail(kPart, "out of range: expected at most 1");
    out_.n_rot = static_cast<std::uint32_t>(part * out_.head_dim);
    if (out_.n_rot == 0 || out_.n_rot % 2 != 0)
      fail(kPart, "odd RoPE dimension: expected an even number, got " + std::to_string(out_.n_rot));
  }

  [[nodiscard]] std::vector<float> factors(const JsonKeys& from, const char* key) const {
    const SortedJson* const values = from.find(key);
    if (values == nullptr || !values->is_array()) from.fail(key, "missing, or not a list");
    std::vector<float> list;
    for (const SortedJson& item : *values) {
      if (!item.is_number() || !(item.get<float>() > 0) || !std::isfinite(item.get<float>()))
        from.fail(key, "expected finite numbers above 0");
      list.push_back(item.get<float>());
    }
    if (list.size() != out_.n_rot / 2)
      from.fail(key, "expected " + std::to_string(out_.n_rot / 2) + " numbers, got " +
                         std::to_string(list.size()));
    return list;
  }

  static std::optional<double> positive_if_present(const JsonKeys& from, const char* key) {
    return from.has(key) ? std::optional(from.positive(key)) : std::nullopt;
  }

  // Phi keeps the original context outside.
  void longrope(const JsonKeys& from) {
    constexpr const char *kShort = "short_mscale", *kLong = "long_mscale";
    HfRopeScaling& to = out_.rope_scaling;
    to.kind = Kind::LongRope;
    to.original_context = has(kOriginal)        ? size(kOriginal, limits::kContext)
                          : from.has(kOriginal) ? from.uint(kOriginal, 1, limits::kContext)
                                                : out_.n_ctx;
    to.short_factors = factors(from, "short_factor");
    to.long_factors = factors(from, "long_factor");
    to.attention_factor = positive_if_present(from, "attention_factor");
    if (out_.model_class->longrope == HfLongRope::Magnitudes && from.has(kLong)) {
      to.attention_factor = from.positive(kLong);
      if (from.positive(kShort) != *to.attention_factor)
        from.fail(kShort, "expected the same as long_mscale");
    }
  }

  void proportional(const JsonKeys& from) {
    HfRopeScaling& to = out_.rope_scaling;
    to.kind = Kind::Proportional;
    to.rotated_part = positive_if_present(from, kPart).value_or(1);
    if (to.rotated_part > 1) from.fail(kPart, "out of range: expected at most 1");
    if (from.has("factor") && from.positive("factor") != 1)
      from.fail("factor", "not supported with a partial rotation: expected 1");
  }

  /// YaRN's magnitude if both of its scales are present.
  std::optional<double> magnitude_of_scales(const JsonKeys& from) const {
    const auto magnitude = [&](const char* key) {
      return 1 + 0.1 * from.positive(key) * std::log(std::max(1.0, out_.rope_scaling.factor));
    };
    for (const char* key : {"mscale", "mscale_all_dim"})
      if (!from.has(key) || *from.find(key) == 0) return std::nullopt;
    return magnitude("mscale") / magnitude("mscale_all_dim");
  }

  void yarn(const JsonKeys& from) {
    HfRopeScaling& to = out_.rope_scaling;
    to.attention_factor = positive_if_present(from, "attention_factor");
    to.beta_fast = positive_if_present(from, "beta_fast");
    to.beta_slow = positive_if_present(from, "beta_slow");
    constexpr const char* kMultiplier = "mscale_all_dim";
    if (!out_.model_class->mscale) {
      if (!to.attention_factor) to.attention_factor = magnitude_of_scales(from);
    } else if (from.has(kMultiplier) && *from.find(kMultiplier) != 0) {
      to.log_multiplier = from.positive(kMultiplier);
    }
    if (!to.attention_factor && out_.default_magnitude() != out_.yarn_magnitude())
      to.attention_factor = out_.default_magnitude();
  }

  void rope_scaling(const JsonKeys& from) {
    HfRopeScaling& to = out_.rope_scaling;
    const std::string kind = from.text("rope_type").value_or(from.text("type").value_or("default"));
    if (kind == "default") return;
    if (is_proportional(from)) return proportional(from);
    if (out_.model_class->longrope != HfLongRope::None && (kind == "longrope" || kind == "su"))
      return longrope(from);
    if (kind == "dynamic") {
      out_.warnings.emplace_back(
          "rope_scaling \"dynamic\" is ignored: it matters only beyond the training context");
      return;
    }
    to.kind = kind == "linear"   ? Kind::Linear
              : kind == "yarn"   ? Kind::Yarn
              : kind == "llama3" ? Kind::Llama3
                                 : Kind::None;
    if (to.kind == Kind::None)
      from.fail("rope_type",
                "unknown RoPE scaling: expected default, linear, dynamic, yarn or llama3, got '" +
                    kind + "'");
    to.factor = from.positive("factor");
    if (to.kind == Kind::Linear) return;
    to.original_context =
        from.has(kOriginal) ? from.uint(kOriginal, 1, limits::kContext) : out_.n_ctx;
    if (to.kind == Kind::Yarn) return yarn(from);
    to.low_freq_factor = from.positive("low_freq_factor");
    to.high_freq_factor = from.positive("high_freq_factor");
    if (to.high_freq_factor < to.low_freq_factor)
      from.fail("high_freq_factor", "below low_freq_factor");
  }

  void window() {  // Qwen 2 has to enable it
    const bool enabled = flag_or("use_sliding_window", out_.model_class->window_by_default);
    if (has("sliding_window") && enabled)
      out_.sliding_window = size("sliding_window", limits::kContext);
  }

  void flags() {
    const HfClass& own = *out_.model_class;
    out_.tied_embeddings = flag_or("tie_word_embeddings", own.tied);
    out_.attention_bias = own.attention_bias || flag_or("attention_bias", false);
    out_.mlp_bias = flag_or("mlp_bias", false);
    if (out_.mlp_bias && !own.mlp_bias)
      fail("mlp_bias", "biases in the feed-forward part are not supported: expected false");
    const char* const key = has("hidden_activation")     ? "hidden_activation"
                            : has("activation_function") ? "activation_function"
                                                         : "hidden_act";
    const std::string expected(own.activations.substr(0, own.activations.find(' ')));
    const std::string activation = text(key).value_or(expected);
    if (!lists(own.activations, activation))
      fail(key, "unknown activation: expected " + expected + ", got '" + activation + "'");
  }

  void special_tokens() {
    if (const SortedJson* const bos = find("bos_token_id");
        bos != nullptr && bos->is_number_unsigned())
      out_.bos = uint("bos_token_id", 0, limits::kVocabulary);
    const SortedJson* const eos = find("eos_token_id");
    if (eos == nullptr) return;
    for (const SortedJson& id : eos->is_array() ? *eos : SortedJson::array({*eos})) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > limits::kVocabulary)
        fail("eos_token_id", "bad token id: expected a number or a list of numbers");
      out_.eos.push_back(id.get<std::uint32_t>());
    }
  }

  /// MLX writes "quantization"; newer versions repeat it as "quantization_config". If only the
  /// latter is present, another program wrote it.
  void packing() {
    const SortedJson* const packed = find("quantization");
    if (packed == nullptr) return require_readable_quantization();
    if (!packed->is_object()) fail("quantization", "wrong type: expected an object");
    out_.packing = one_packing(*packed);
    for (const auto& [tensor, how] : packed->items()) {
      if (how.is_object())
        out_.other_packing[tensor] = one_packing(how);
      else if (how.is_boolean() && !how.get<bool>())
        out_.other_packing[tensor] = std::nullopt;
    }
  }

  void require_readable_quantization() const {
    constexpr const char* kKey = "quantization_config";
    const SortedJson* const other = find(kKey);
    if (other == nullptr) return;
    const std::string method =
        other->is_object() ? JsonKeys(*other, file(), kKey).text("quant_method").value_or("?")
                           : "?";
    if (out_.model_class->quantization.empty() || method != out_.model_class->quantization)
      fail(kKey,
           "cannot read these quantized weights: expected floats or MLX's affine form, got '" +
               method + "'");
  }

  [[nodiscard]] MlxPacking one_packing(const SortedJson& json) const {
    const JsonKeys from(json, file(), "quantization");
    if (const std::string mode = from.text("mode").value_or("affine"); mode != "affine")
      from.fail("mode", "expected affine, got '" + mode + "'");
    const auto or_default = [&](const char* key, std::uint32_t value, std::uint64_t high) {
      return json.contains(key) ? from.uint(key, 1, high) : value;
    };
    const MlxPacking packing{or_default("group_size", 64, limits::kEmbedding),
                             or_default("bits", 4, 8)};
    if (packing.bits == 7 || packing.bits == 1)
      from.fail("bits", "expected 2, 3, 4, 5, 6 or 8, got " + std::to_string(packing.bits));
    return packing;
  }

  HfConfig& out_;
};

}  // namespace

HfConfig HfConfig::from_json(const SortedJson& json, const std::string& file,
                             std::span<const HfClass> classes) {
  if (!json.is_object()) throw Error(file, "bad config: expected a JSON object");
  HfConfig config;
  ConfigReader(json, file, config).read(classes);
  return config;
}

}  // namespace cria
