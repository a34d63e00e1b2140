// The tools that a request offers, and values in calls as JSON: slices of JSON text, and other
// notations.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {

/// Parses the tools on first use, and once.
class OfferedTools {
 public:
  /// json: the array of a request. Anything else offers nothing.
  explicit OfferedTools(std::string json = "") : json_(std::move(json)) {}

  /// Returns the types that the schema of a tool allows for an argument; empty if it has none.
  const std::vector<std::string>& types(std::string_view tool, std::string_view argument);
  /// True if a tool has this name, or no tools are known.
  bool may_call(std::string_view tool);

 private:
  using Types = std::map<std::string, std::vector<std::string>, std::less<>>;  // by argument

  void read();

  std::string json_;  // empty after read()
  std::set<std::string, std::less<>> names_;
  std::map<std::string, Types, std::less<>> tools_;  // tools with properties
};

/// Finds the end of an object or array while its text is still growing.
class JsonEnd {
 public:
  /// Gets the text so far, from the first byte of the value; each call continues where the last one
  /// stopped. Returns one past the last byte once that has arrived.
  std::optional<std::size_t> find(std::string_view text);

 private:
  std::size_t at_ = 0, depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

/// Returns the key (the bytes between its quotes, escapes as written) and value of every member of
/// an object, or the elements of an array with empty keys. The text must be valid JSON. Slices keep
/// numbers and spaces as the model wrote them.
std::vector<std::pair<std::string_view, std::string_view>> json_members(std::string_view text);
/// Returns JSON with its missing closing brackets added; nullopt if that does not make it valid.
std::optional<std::string> closed_json(std::string_view text);

/// Returns text as a JSON string.
std::string json_string(std::string_view text);
/// Returns a value without quotes as JSON: JSON itself, or True, False, None; nullopt for others.
std::optional<std::string> bare_json(std::string_view value);
/// Returns a Python (or JSON) literal as JSON; nullopt for other text.
std::optional<std::string> python_json(std::string_view literal);
/// Returns calls as in Python, "f(a=1, b='x')", as names and arguments in JSON: several may be
/// separated by commas or white space, within [] or not. Empty if the text is anything else.
std::vector<std::pair<std::string, std::string>> python_calls(std::string_view text);
/// Returns Gemma's {KEY:VALUE,…} as JSON. Strings stand between <|"|>, keys perhaps too.
std::optional<std::string> json_of_gemma(std::string_view text);

}  // namespace cria
