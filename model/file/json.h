// JSON from untrusted files, with limits on size, depth and ambiguity.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cria {

/// Limits of parse_json(). The defaults fit small files of settings.
struct JsonLimits {
  std::size_t bytes = 4 << 20;
  std::size_t depth = 32;
  std::size_t values = 200'000;  ///< numbers, strings, arrays, … in all
};

/// Throws Error (file names the text in it) for text that is not JSON in UTF-8, exceeds a limit, or
/// repeats a key.
nlohmann::json parse_json(std::string_view text, const std::string& file,
                          const JsonLimits& limits = {});
/// The same with the members of objects in their order.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& file,
                                          const JsonLimits& limits = {});
/// Parses JSON as nlohmann's parser does, without limits, and keeps the digits of integers beyond
/// 64 bits: they become binary values, which JSON itself never does, and exact_json_text() prints
/// them. Throws the library's exceptions; with `throws` false, a discarded value means an error.
nlohmann::ordered_json parse_exact_json(std::string_view text, bool throws = true);
/// Returns a value of parse_exact_json() as text. indent: spaces per level; -1: on one line.
std::string exact_json_text(const nlohmann::ordered_json& json, int indent = -1);
/// The same of a file, which must be a regular one.
nlohmann::json read_json(const std::string& path, const JsonLimits& limits = {});
/// The same of a file that Python may have written: NaN, Infinity and -Infinity become null.
nlohmann::json read_python_json(const std::string& path, const JsonLimits& limits = {});

}  // namespace cria
