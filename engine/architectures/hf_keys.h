// What a class of models says in config.json beyond the common keys, each checked where it is read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/writer.h"
#include "model/hf/config.h"
#include "model/limits.h"

namespace cria {

/// Getters throw Error naming the key: missing, of a wrong type, out of range. null counts as missing.
class HfKeys {
 public:
  /// All outlive this. file: the path of the JSON, for errors.
  HfKeys(const nlohmann::json& json, const std::string& file, HfConfig& config, GgufWriter& writer);

  HfConfig& config;

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] std::uint32_t uint(std::string_view key, std::uint64_t high) const;
  [[nodiscard]] std::uint32_t uint_or(std::string_view key, std::uint32_t fallback, std::uint64_t high) const;
  /// A finite number.
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] double number_or(std::string_view key, double fallback) const;
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string fallback) const;
  /// Within rope_scaling (or rope_parameters).
  [[nodiscard]] double rope_number_or(std::string_view key, double fallback) const;
  /// "no_rope_layers": 1 or 0 for each layer; empty if missing.
  [[nodiscard]] std::vector<std::uint32_t> list(std::string_view key) const;

  /// Sets ARCH.suffix in the GGUF file.
  void set(std::string_view suffix, GgufData value);
  void number(std::string_view suffix, std::string_view key) { set(suffix, static_cast<float>(number(key))); }
  /// expert_count, expert_used_count, expert_feed_forward_length.
  void experts(std::string_view count, std::string_view used, std::string_view width);
  /// DeepSeek's: groups, scale, norm, shared experts.
  void routed_experts(std::uint32_t gating);
  /// attention.sliding_window if there is one, and which layers have it if that is not all but the last of every
  /// `period`.
  void windows(std::uint32_t period);
  /// Throws Error unless the key is missing or has this value: the architecture can do nothing else.
  void only(std::string_view key, bool value) const;
  void only(std::string_view key, double value) const;

  [[noreturn]] void fail(std::string_view key, const std::string& message) const;

 private:
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;
  [[nodiscard]] std::vector<bool> windowed(std::uint32_t period) const;

  const nlohmann::json& json_;
  const std::string& file_;
  GgufWriter& writer_;
};

}  // namespace cria
