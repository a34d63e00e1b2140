// Reads the keys of a JSON object and checks each.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/error.h"
#include "model/file/json.h"

namespace cria {

/// null counts as missing. Everything throws Error naming the key: missing, of a wrong type, out of
/// range.
class JsonKeys {
 public:
  /// The object outlives this. file: the path of the JSON. within: the key whose value the object
  /// is, "" for the whole file.
  JsonKeys(const SortedJson& object, std::string file, std::string within = "")
      : json_(object), file_(std::move(file)), within_(std::move(within)) {}

  [[nodiscard]] const SortedJson* find(std::string_view key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// True if the key is present and null, which may differ from a missing key.
  [[nodiscard]] bool is_null(std::string_view key) const {
    return json_.contains(key) && find(key) == nullptr;
  }

  [[nodiscard]] std::uint32_t uint(std::string_view key, std::uint64_t low,
                                   std::uint64_t high) const {
    const SortedJson& value = get(key);
    // Some files write 8192.0 for 8192.
    const double number = value.is_number_float() ? value.get<double>() : 0.5;
    const bool whole = number == std::floor(number) && number >= 0 && number < 1e15;
    if (!value.is_number_unsigned() && !whole)
      fail(key, "wrong type: expected a number, got " + value.dump());
    const auto result = whole ? static_cast<std::uint64_t>(number) : value.get<std::uint64_t>();
    if (result < low || result > high)
      fail(key, "out of range: expected " + std::to_string(low) + " to " + std::to_string(high) +
                    ", got " + std::to_string(result));
    return static_cast<std::uint32_t>(result);
  }
  [[nodiscard]] std::uint32_t uint_or(std::string_view key, std::uint32_t fallback,
                                      std::uint64_t high) const {
    return has(key) ? uint(key, 0, high) : fallback;
  }
  /// A finite number.
  [[nodiscard]] double number(std::string_view key) const {
    const SortedJson& value = get(key);
    if (!value.is_number() || !std::isfinite(value.get<float>()))
      fail(key, "expected a finite number, got " + value.dump());
    return value.get<double>();
  }
  [[nodiscard]] double number_or(std::string_view key, double fallback) const {
    return has(key) ? number(key) : fallback;
  }
  [[nodiscard]] double positive(std::string_view key) const {
    const double value = number(key);
    if (value <= 0 || value > 1e30)
      fail(key, "bad number: expected a finite number above 0, got " + std::to_string(value));
    return value;
  }
  [[nodiscard]] bool flag_or(std::string_view key, bool fallback) const {
    const SortedJson* const value = find(key);
    if (value != nullptr && !value->is_boolean()) fail(key, "wrong type: expected true or false");
    return value == nullptr ? fallback : value->get<bool>();
  }
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const {
    const SortedJson* const value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) fail(key, "wrong type: expected a string");
    return value->get<std::string>();
  }

  [[noreturn]] void fail(std::string_view key, const std::string& message) const {
    if (within_.empty()) throw Error(file_, message, "key " + std::string(key));
    throw Error(file_, std::string(key) + ": " + message, "key " + within_);
  }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  [[nodiscard]] const SortedJson& get(std::string_view key) const {
    const SortedJson* const value = find(key);
    if (value == nullptr) fail(key, "missing key");
    return *value;
  }

  const SortedJson& json_;
  std::string file_, within_;
};

}  // namespace cria
