#include "tools/requests/fields.h"

#include <cmath>

#include "model/file/json.h"
#include "model/plural.h"

namespace cria::tools {
namespace {

constexpr std::size_t kMaxLevels = 128;
constexpr std::size_t kMaxComparisons = 100'000'000;  // 14,142 members of one object
constexpr std::size_t kMaxParts =
    1'000'000;  // each takes about 200 bytes in a template; numbers are free

struct Shape {
  std::size_t deepest = 0;  // nesting
  std::size_t comparisons =
      0;  // comparisons of names: nlohmann's ordered object compares each with the others
  std::size_t parts = 0;  // strings, names, arrays and objects
};

/// Measures a text, which need not be JSON.
Shape shape_of(std::string_view text) {
  Shape shape;
  std::vector<std::size_t> members;  // members of each open object or array
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
      ++shape.parts;
    } else if (c == '[' || c == '{') {
      ++shape.parts;
      members.push_back(0);
      shape.deepest = std::max(shape.deepest, members.size());
    } else if (members.empty()) {
      continue;
    } else if (c == ']' || c == '}') {
      members.pop_back();
    } else if (c == ':') {
      shape.comparisons += members.back()++;
    }
  }
  return shape;
}

[[noreturn]] void refuse_json(const std::string& why) {
  throw RequestError("invalid_json", "", "not JSON: " + why);
}

/// Returns a value as messages show it: one short line.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  if (value.is_binary()) return exact_json_text(value);
  Json shorter = value;
  bool cut = false;
  if (value.is_string()) {
    constexpr std::size_t kMaxBytes = 60;
    const auto& text = value.get_ref<const std::string&>();
    cut = text.size() > kMaxBytes;
    std::size_t end = std::min(text.size(), kMaxBytes);
    while (cut && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
      --end;  // keep characters whole
    shorter = text.substr(0, end);
  }
  const std::string text = shorter.dump(-1, ' ', true, Json::error_handler_t::replace);
  return cut ? text + "…" : text;
}

std::string wrong(const std::string& path, std::string_view expected, const Json& got) {
  return (path.empty() ? "" : "\"" + path + "\": ") + "expected " + std::string(expected) +
         ", got " + shown(got);
}

template <class T>
std::string bounds(std::string_view what, T low, T high) {
  std::ostringstream out;
  out << what;
  if (high == std::numeric_limits<T>::max())
    out << " from " << low << " on";
  else
    out << " from " << low << " to " << high;
  return out.str();
}

}  // namespace

Json parse_request_json(std::string_view text) {
  const Shape shape = shape_of(text);
  if (shape.deepest > kMaxLevels) refuse_json("nested deeper than " + counted(kMaxLevels, "level"));
  if (shape.comparisons > kMaxComparisons) refuse_json("too many members in one object");
  if (shape.parts > kMaxParts)
    refuse_json("more than " + std::to_string(kMaxParts) + " strings, names, arrays and objects");
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    refuse_json("a NUL at byte " + std::to_string(nul));
  try {
    return parse_exact_json(text);
  } catch (const Json::parse_error& error) {
    refuse_json(text.empty() ? "it is empty" : json_fault(error));
  } catch (const Json::exception&) {
    refuse_json("a number beyond what a double holds");
  } catch (const Error& repeated) {
    refuse_json(repeated.what());
  }
}

void refuse_type(const std::string& path, std::string_view expected, const Json& got) {
  throw RequestError("invalid_type", path, wrong(path, expected, got));
}
void refuse_value(const std::string& path, std::string_view expected, const Json& got) {
  throw RequestError("invalid_value", path, wrong(path, expected, got));
}
void refuse_missing(const std::string& path, std::string_view expected) {
  throw RequestError("missing_required_parameter", path,
                     "\"" + path + "\" is missing: expected " + std::string(expected));
}
void refuse_unsupported(const std::string& path, std::string_view why) {
  throw RequestError("unsupported_parameter", path, "\"" + path + "\": " + std::string(why));
}

std::string element_path(const std::string& array, std::size_t index) {
  return array + "[" + std::to_string(index) + "]";
}

double read_number(const Json& value, const std::string& path, double low, double high) {
  if (value.is_binary()) refuse_value(path, bounds("a number", low, high), value);
  if (!value.is_number()) refuse_type(path, bounds("a number", low, high), value);
  const double number = value.get<double>();
  if (!(number >= low && number <= high)) refuse_value(path, bounds("a number", low, high), value);
  return number;
}

std::int64_t read_integer(const Json& value, const std::string& path, std::int64_t low,
                          std::int64_t high) {
  const std::string expected = bounds("a whole number", low, high);
  if (value.is_binary()) refuse_value(path, expected, value);
  const bool whole = value.is_number_integer() ||
                     (value.is_number() && std::trunc(value.get<double>()) == value.get<double>());
  if (!whole) refuse_type(path, expected, value);
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                        : value.is_number_integer() ||
                              (value.get<double>() >= -kEnd && value.get<double>() < kEnd);
  const std::int64_t number = !fits ? 0 : value.get<std::int64_t>();
  if (!fits || number < low || number > high) refuse_value(path, expected, value);
  return number;
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) refuse_type(path_, "an object", object);
}

std::string Fields::path(std::string_view name) const {
  return (path_.empty() ? "" : path_ + ".") + std::string(name);
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!asked_.contains(name)) names.push_back(name);
  return names;
}

const Json* Fields::find(std::string_view name) const {
  asked_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::is_null(std::string_view name) const {
  const auto found = object_.find(std::string(name));
  return found != object_.end() && found->is_null();
}

const Json& Fields::require(std::string_view name, std::string_view expected) const {
  const Json* const value = find(name);
  if (value == nullptr) refuse_missing(path(name), std::string(expected) + other_text(name));
  return *value;
}

/// "; "prompt" is not read here", if a request has its text in the field of another one.
std::string Fields::other_text(std::string_view name) const {
  constexpr std::string_view kTexts[] = {"messages", "prompt",  "input",
                                         "inputs",   "content", "text"};
  if (!path_.empty() || std::ranges::count(kTexts, name) == 0) return "";
  for (const std::string_view other : kTexts)
    if (other != name && object_.contains(other))
      return "; \"" + std::string(other) + "\" is not read here";
  return "";
}

std::optional<bool> Fields::flag(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(path(name), "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(path(name), "a string", *value);
  return value->get<std::string>();
}

std::string Fields::require_text(std::string_view name) const {
  (void)require(name, "a string");
  return *text(name);
}

const Json* Fields::array(std::string_view name) const {
  const Json* const value = find(name);
  if (value != nullptr && !value->is_array()) refuse_type(path(name), "an array", *value);
  return value;
}

const Json* Fields::object(std::string_view name) const {
  const Json* const value = find(name);
  if (value != nullptr && !value->is_object()) refuse_type(path(name), "an object", *value);
  return value;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) const {
  const Json* const value = find(name);
  return value == nullptr ? std::nullopt
                          : std::optional(read_number(*value, path(name), low, high));
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low,
                                            std::int64_t high) const {
  const Json* const value = find(name);
  return value == nullptr ? std::nullopt
                          : std::optional(read_integer(*value, path(name), low, high));
}

}  // namespace cria::tools
