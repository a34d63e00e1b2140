// The vocabulary of the classes in families/: statements about config.json beyond the keys that
// nearly all classes share. Each rule converts config.json to GGUF keys and back.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/convert/hf_class.h"
#include "engine/convert/hf_config.h"
#include "engine/convert/json_keys.h"
#include "model/gguf/writer.h"
#include "model/keys.h"
#include "model/limits.h"

namespace cria {

/// The view of a rule on a conversion: config.json and the GGUF file under construction.
class HfImport : public JsonKeys {
 public:
  /// All arguments but file outlive this.
  HfImport(const SortedJson& json, std::string file, HfConfig& model_config,
           GgufWriter& gguf_writer)
      : JsonKeys(json, std::move(file)), config(model_config), writer(gguf_writer) {}

  HfConfig& config;  ///< the common keys, already read
  GgufWriter& writer;

  /// Within rope_parameters (there of the layers without a window) or rope_scaling.
  [[nodiscard]] double rope_number_or(std::string_view key, double fallback) const;
  /// "rope_theta" of the sliding-window layers in rope_parameters.
  [[nodiscard]] double windowed_rope_base_or(double fallback) const;
  /// One number per layer, 0 to high; one number stands for all layers. Empty if missing.
  [[nodiscard]] std::vector<std::uint32_t> list(std::string_view key, std::uint64_t high) const;
  /// True for each layer with a window; by default all but the last of every `period`.
  [[nodiscard]] std::vector<bool> windowed(std::uint32_t period) const;
  /// Sets ARCH.suffix in the GGUF file.
  void set(std::string_view suffix, GgufData value) {
    writer.set(std::string(config.model_class->arch) + "." + std::string(suffix), std::move(value));
  }
};

/// The view of a rule on an export: the GGUF file and config.json under construction.
class HfExport {
 public:
  /// All arguments outlive this. `gguf_keys` remembers which keys have been read.
  HfExport(const GgufFile& file, Keys& gguf_keys, HfConfig& model_config, Json& json)
      : config(model_config), keys(gguf_keys), out(json), file_(file) {}

  HfConfig& config;  ///< the common keys, already written
  Keys& keys;
  Json& out;

  [[nodiscard]] bool has_tensor(std::string_view name) const {
    return file_.tensor(name) != nullptr;
  }
  /// blk.LAYER.NAME
  [[nodiscard]] bool has_tensor(std::uint32_t layer, std::string_view name) const {
    return has_tensor("blk." + std::to_string(layer) + "." + std::string(name));
  }
  /// Columns of the matrix blk.*.NAME.weight in the first layer that has one; 0 if none has.
  [[nodiscard]] std::uint64_t cols_of(const std::string& name) const;
  void set(std::string_view key, Json value) { out[std::string(key)] = std::move(value); }
  /// Sets the shortest decimal that becomes `value` when multiplied by factor.
  void set_number(std::string_view key, float value, double factor = 1);
  [[noreturn]] void fail(std::string_view suffix, const std::string& message) const {
    keys.fail(suffix, "config.json cannot express it: " + message);
  }

 private:
  const GgufFile& file_;
};

namespace hf {

/// A number that may depend on the common keys.
class Amount {
 public:
  // Not explicit: rules take plain numbers.
  Amount(double value) : of_([value](const HfConfig&) { return value; }) {}
  Amount(std::function<double(const HfConfig&)> of) : of_(std::move(of)) {}
  double operator()(const HfConfig& config) const { return of_(config); }

 private:
  std::function<double(const HfConfig&)> of_;
};

// suffix: GGUF's key without the architecture. key: config.json's key, missing only if a rule
// allows it. fallback: the meaning of a GGUF file without the key.

HfRule all(std::vector<HfRule> rules);
/// Import follows the rule only if config.json has the key.
HfRule if_present(std::string_view key, const HfRule& rule);
/// GGUF has `factor` times the number.
HfRule number(std::string_view suffix, std::string_view key, std::optional<float> fallback = {});
/// Both files may lack it.
HfRule number_or(std::string_view suffix, std::string_view key, float fallback);
/// A factor; 0 in GGUF means the fallback. GGUF has `factor` times the number.
HfRule scale(std::string_view suffix, std::string_view key, Amount fallback = 1, Amount factor = 1);
/// GGUF has dividend / number; 0 means the fallback.
HfRule quotient(std::string_view suffix, std::string_view key, Amount fallback, Amount dividend);
/// A limit; null in config.json and 0 in GGUF mean no limit.
HfRule cap(std::string_view suffix, std::string_view key, float fallback);
HfRule integer(std::string_view suffix, std::string_view key, std::uint64_t high);
/// Missing in both files or in neither.
HfRule integer_if_present(std::string_view suffix, std::string_view key, std::uint64_t high);
HfRule integer_or(std::string_view suffix, std::string_view key, Amount fallback,
                  std::uint64_t high);
HfRule flag_or(std::string_view suffix, std::string_view key, bool fallback);

// Values that the architecture takes for granted: others are rejected. missing: the meaning of a
// missing key.
HfRule only(std::string_view key, bool value, bool missing);
inline HfRule only(std::string_view key, bool value) { return only(key, value, value); }
HfRule only(std::string_view key, double value);
HfRule only_text(std::string_view key, std::string_view value);
/// true; older directories have a number that is not 0.
HfRule only_on(std::string_view key);
/// "layer_types" (required): every layer has this type.
HfRule only_layers(std::string_view type);

// Export only: what readers of config.json take for granted otherwise.
HfRule write(std::string_view key, Json value);
/// Writes whether the file has the tensor.
HfRule write_presence(std::string_view key, std::string_view tensor);
/// Writes `value` within rope_scaling, if there is scaling.
HfRule write_scaling(std::string_view key, Json value);
/// Writes rope_type default unless there is scaling, for classes that scale if it is null.
HfRule write_unscaled();
/// "mlp_only_layers": GGUF's tensors show which layers have no experts.
HfRule write_dense_layers();
/// Other names of keys that earlier rules have written: pairs {name, other name}.
HfRule renamed(std::vector<std::pair<std::string, std::string>> names);
/// MTP layers: the directory has none.
HfRule drop_prediction();

/// expert_count, expert_used_count, expert_feed_forward_length.
HfRule experts(std::string_view count, std::string_view used, std::string_view width);
/// The width of shared experts, in widths of an expert.
HfRule shared_experts(std::string_view key);
/// DeepSeek's router: gating function, scale, normalization, shared experts.
HfRule routed_experts(std::uint32_t gating);
/// DeepSeek's groups of experts.
HfRule expert_groups();

/// attention.sliding_window, and which layers have one unless it is all but the last of every
/// `period`. fallback: window of a GGUF file without the key. always: write the layers in any case.
HfRule windows(std::uint32_t period, Amount fallback = 0, bool always = false);
/// The same, but without windowed layers GGUF has no window, or 0 if write_none.
HfRule windows_if_any(std::uint32_t period, bool write_none);
/// "no_rope_layers": RoPE rotates all but the last of every `period` layers.
HfRule unrotated(std::uint32_t period);
/// A number within rope_scaling (or rope_parameters); missing if 0.
HfRule rope_number(std::string_view suffix, std::string_view key, double factor = 1);
/// YaRN's "mscale_all_dim", which "mscale" must equal.
HfRule mscale(double factor = 1);
/// DeepSeek's head sizes.
HfRule latent_attention();

}  // namespace hf
}  // namespace cria
