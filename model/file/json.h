// JSON from untrusted files, with limits on size, depth and ambiguity.
#pragma once

#include <cstddef>
#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace cria {

/// A JSON value; objects keep the order of their members, of which they have few.
using Json = nlohmann::ordered_json;
/// A JSON value of a file whose objects may have many members (a vocabulary): they are sorted.
using SortedJson = nlohmann::json;

/// Limits of parse_json(). The defaults fit small files of settings.
struct JsonLimits {
  std::size_t bytes = 4 << 20;
  std::size_t depth = 32;
  std::size_t values = 200'000;  ///< numbers, strings, arrays, … in all
};

/// Parses JSON as nlohmann's parser does. A discarded value means that the text is not JSON.
Json try_json(std::string_view text);
/// True if the text is JSON.
bool is_json(std::string_view text);
/// Parses as try_json() does, but integers beyond 64 bits keep their digits: they become binary
/// values, which JSON itself never does, and exact_json_text() prints them. Throws the library's
/// exceptions, or Error if a key stands twice in an object. With `throws` false, a discarded value
/// means an error, and the last value of a key counts.
Json parse_exact_json(std::string_view text, bool throws = true);
/// Returns where and why a text is not JSON, for an exception of the library's parser: "at byte 7:
/// unexpected '}'".
std::string json_fault(const std::exception& error);
/// Returns a value of parse_exact_json() as text. indent: spaces per level; -1: on one line.
std::string exact_json_text(const Json& json, int indent = -1);

/// Throws Error (file names the text in it) for text that is not JSON in UTF-8, exceeds a limit, or
/// repeats a key.
Json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});
/// The same for objects with many members.
SortedJson parse_sorted_json(std::string_view text, const std::string& file,
                             const JsonLimits& limits = {});
/// The same of a file, which must be a regular one.
SortedJson read_json(const std::string& path, const JsonLimits& limits = {});
/// The same of a file that Python may have written: NaN, Infinity and -Infinity become null.
SortedJson read_python_json(const std::string& path, const JsonLimits& limits = {});

}  // namespace cria
