// The metadata keys of one architecture ("qwen3.block_count"), each checked when it is read.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/gguf.h"

namespace cria {

/// Every getter throws Error naming the key: for a type that does not convert, and for a value out
/// of range.
class Keys {
 public:
  /// The file outlives this. Throws Error if it does not say its architecture.
  explicit Keys(const GgufFile& file);

  [[nodiscard]] const std::string& architecture() const { return architecture_; }
  /// Sets the length of per-layer arrays. Entries of the last nextn_predict_layers may be missing
  /// and are made up: those blocks do not run.
  void set_layers(std::uint32_t n_layers) { n_layers_ = n_layers; }

  [[nodiscard]] bool has(std::string_view suffix) const;
  /// Throws Error if the key is missing.
  std::uint32_t get(std::string_view suffix, std::uint64_t low, std::uint64_t high) const;
  std::uint32_t get_or(std::string_view suffix, std::uint32_t fallback, std::uint64_t low,
                       std::uint64_t high) const;
  /// A finite number.
  float number_or(std::string_view suffix, float fallback) const;
  /// A finite number above 0.
  float positive(std::string_view suffix) const;
  float positive_or(std::string_view suffix, float fallback) const;
  bool flag_or(std::string_view suffix, bool fallback) const;
  /// True if a number, or one in an array of integers, is not 0; false if the key is missing.
  bool any(std::string_view suffix) const;
  /// A number for all layers, or an array with one per layer, each from low to high.
  std::vector<std::uint32_t> per_layer(std::string_view suffix, std::uint64_t low,
                                       std::uint64_t high) const;
  /// A finite number for all layers, or an array with one per layer. whole: the key is given in
  /// full. none_allowed: -inf may stand for none.
  std::vector<float> numbers_per_layer(const std::string& whole, bool none_allowed = false) const;
  /// Booleans, or integers that are 0 or not, one per layer; empty if the key is missing or no
  /// array.
  std::vector<bool> flags_per_layer(std::string_view suffix) const;

  /// An integer of a key that is given in full; nullopt if it is missing.
  [[nodiscard]] std::optional<std::uint64_t> whole_key(std::string_view key) const {
    return file_.find_uint(key);
  }

  /// Throws Error if the key is neither `value` nor `other` and was never read.
  void expect(std::string_view suffix, double value, double other) const;
  /// Throws Error for a key that changes the text, is not neutral and was never read: the
  /// architecture would run wrongly.
  void refuse_unread() const;

  [[nodiscard]] bool has_been_read(std::string_view suffix) const { return read_.contains(suffix); }
  [[nodiscard]] const std::set<std::string, std::less<>>& read() const { return read_; }
  [[noreturn]] void fail(std::string_view suffix, const std::string& message) const;

 private:
  [[nodiscard]] std::string key(std::string_view suffix) const;
  [[nodiscard]] bool is_one_per_layer(std::size_t length) const;
  [[nodiscard]] float finite(std::string_view suffix, double value) const;
  std::uint32_t in_range(std::string_view suffix, std::uint64_t value, std::uint64_t low,
                         std::uint64_t high) const;

  const GgufFile& file_;
  std::string architecture_;
  std::uint32_t n_layers_ = 0;
  mutable std::set<std::string, std::less<>> read_;
};

/// True for sliding-window layers, as attention.sliding_window_pattern says (an array, or a number
/// P: all but the last of every P), or all but the last of every `period`.
std::vector<bool> windowed_layers(const Keys& keys, std::uint32_t n_layers, std::uint32_t period);

}  // namespace cria
