// What a class of models says in config.json beyond the common keys. One description serves both
// ways: from config.json to GGUF (convert) and back (export).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/writer.h"
#include "model/hf/config.h"
#include "model/keys.h"
#include "model/limits.h"

namespace cria {

/// Everything throws Error naming the key: missing, of a wrong type, out of range. null counts as
/// missing.
class HfKeys {
 public:
  /// Convert. All but file outlive this. file: the path of the JSON, for errors.
  HfKeys(const nlohmann::json& json, std::string file, HfConfig& config, GgufWriter& writer);
  /// Export: `keys` of the GGUF file remember what was said in `out`.
  HfKeys(const GgufFile& file, Keys& keys, HfConfig& config, nlohmann::ordered_json& out);

  HfConfig& config;  ///< the common keys, read already

  // Both ways. usual: what it means that the GGUF file has no such key.
  void copy_number(std::string_view suffix, std::string_view key, std::optional<float> usual = {},
                   double factor = 1);  ///< in GGUF it is `factor` times as large
  void copy_number_or(std::string_view suffix, std::string_view key, float usual);
  /// A factor, which is 1 (or `usual`) where GGUF says 0.
  void copy_scale(std::string_view suffix, std::string_view key, float usual = 1,
                  double factor = 1);
  /// In GGUF it is `dividend` divided by it.
  void copy_quotient(std::string_view suffix, std::string_view key, float usual, double dividend);
  /// A bound that is null where there is none; 0 in GGUF.
  void copy_cap(std::string_view suffix, std::string_view key, float usual);
  void copy_uint(std::string_view suffix, std::string_view key, std::uint64_t high);
  /// Where the key is missing it is missing in the other file, too.
  void copy_uint_if_there(std::string_view suffix, std::string_view key, std::uint64_t high);
  void copy_uint_or(std::string_view suffix, std::string_view key, std::uint32_t usual,
                    std::uint64_t high);
  void copy_flag_or(std::string_view suffix, std::string_view key, bool usual);
  /// expert_count, expert_used_count, expert_feed_forward_length.
  void copy_experts(std::string_view count, std::string_view used, std::string_view width);
  /// How many of an expert's width the shared one is as wide as.
  void copy_shared_experts(std::string_view key);
  /// DeepSeek's: scale, norm, shared experts, groups.
  void copy_routed_experts(std::uint32_t gating, bool grouped = true);
  /// attention.sliding_window if there is one (or `usual`), and which layers have it if that is not
  /// all but the last of every `period`, or always.
  void copy_windows(std::uint32_t period, std::uint32_t usual = 0, bool always = false);
  /// The same, but where no layer has one nothing is copied; say_none: 0 says so.
  void copy_windows_if_any(std::uint32_t period, bool say_none);
  // Gemma 4's: layers with a window have sizes of their own.
  void copy_windowed_head_size();  ///< "head_dim"
  /// Layers without a window have "num_global_key_value_heads" where "attention_k_eq_v": their
  /// values are their keys.
  void copy_kv_heads_of_kinds(std::uint32_t period);
  void
  copy_shared_layers();  ///< how many use the keys of others, and whether they are twice as wide
  /// "rope_parameters" of both kinds of layers. usual: bases that are not said.
  void copy_ropes_of_kinds(float usual, float usual_windowed);
  /// "no_rope_layers": that all but the last of every `period` layers are rotated.
  void copy_unrotated(std::uint32_t period);
  /// Layers that predict further tokens: the directory has none.
  void leave_out_prediction();
  /// Within rope_scaling (or rope_parameters): missing where it is 0.
  void copy_rope_number(std::string_view suffix, std::string_view key, double factor = 1);
  /// YaRN's "mscale_all_dim", which "mscale" has to be equal to.
  void copy_mscale(double factor = 1);
  /// DeepSeek's sizes of heads.
  void copy_latent_attention();
  /// The architecture can do nothing else. Convert: unless the key is missing (which means
  /// `missing`) it must be this value.
  void only(std::string_view key, bool value) { only(key, value, value); }
  void only(std::string_view key, bool value, bool missing);
  void only(std::string_view key, double value);
  /// The same of what is on where the key is missing: true, or in older directories a number other
  /// than 0.
  void only_on(std::string_view key);
  /// "layer_types": that all layers are of this type. The key has to be there.
  void only_layers(std::string_view type);

  [[nodiscard]] bool exporting() const { return out_ != nullptr; }

  // Convert alone.
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Converting: whether the key is there, and null: another thing than a default where a class has
  /// one.
  [[nodiscard]] bool says_null(std::string_view key) const;
  [[nodiscard]] std::uint32_t uint(std::string_view key, std::uint64_t high) const;
  [[nodiscard]] std::uint32_t uint_or(std::string_view key, std::uint32_t fallback,
                                      std::uint64_t high) const;
  /// A finite number.
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] double number_or(std::string_view key, double fallback) const;
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string fallback) const;
  /// Within rope_scaling (or rope_parameters, there of the layers without a window).
  [[nodiscard]] double rope_number_or(std::string_view key, double fallback) const;
  /// "rope_theta" of the layers with a window, within rope_parameters of each type of layers.
  [[nodiscard]] double windowed_rope_base_or(double fallback) const;
  /// A number for each layer, 0 to high, or one for all; empty if missing.
  [[nodiscard]] std::vector<std::uint32_t> list(std::string_view key, std::uint64_t high) const;
  /// Sets ARCH.suffix in the GGUF file.
  void set(std::string_view suffix, GgufData value);

  // Export alone.
  [[nodiscard]] const Keys& gguf() const { return *keys_; }
  [[nodiscard]] bool has_tensor(std::string_view name) const {
    return gguf_->tensor(name) != nullptr;
  }
  /// The columns of a matrix of the first layer that has one; 0 if none has.
  [[nodiscard]] std::uint64_t cols_of(const std::string& name) const;
  [[nodiscard]] std::uint32_t leading_dense_layers() const;
  /// "mlp_only_layers": in GGUF the tensors say which layers have no experts.
  void say_dense_layers();
  /// Sets a key of config.json.
  void say(std::string_view key, nlohmann::ordered_json value) {
    (*out_)[std::string(key)] = std::move(value);
  }
  /// Sets a key within rope_scaling, where anything is scaled.
  void say_scaling(std::string_view key, nlohmann::ordered_json value);
  /// "rope_scaling" where nothing is scaled, for classes that scale where it is null.
  void say_if_unscaled();
  /// A number that becomes `value` when it is multiplied.
  static nlohmann::ordered_json unscaled(float value, double factor);
  void leave_out(std::string_view key) { out_->erase(std::string(key)); }
  /// Makes a list of what was said: once for each layer.
  void repeat_for_layers(std::string_view key);

  /// Of either file's key.
  [[noreturn]] void fail(std::string_view key, const std::string& message) const;

 private:
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;
  [[nodiscard]] double number_within(const nlohmann::json& object, std::string_view name,
                                     std::string_view key, double fallback) const;
  [[nodiscard]] std::vector<bool> windowed(std::uint32_t period) const;
  void say_latent_attention();
  void say_windows(std::uint32_t period, std::uint32_t usual);
  void say_no_windows();
  void say_kv_heads_of_kinds(std::uint32_t period);

  const nlohmann::json* json_ = nullptr;
  std::string file_;
  GgufWriter* writer_ = nullptr;
  const GgufFile* gguf_ = nullptr;
  Keys* keys_ = nullptr;
  nlohmann::ordered_json* out_ = nullptr;
};

}  // namespace cria
