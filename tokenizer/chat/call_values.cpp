#include "tokenizer/chat/call_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/file/json.h"
#include "model/file/utf8.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {

namespace {

/// Returns the member of an object, or null.
const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

/// Returns the definition that "#/$defs/Name" points to, or null.
const Json* definition(const Json& root, std::string path) {
  if (!path.starts_with('#')) return nullptr;
  try {
    return &root.at(Json::json_pointer(path.erase(0, 1)));
  } catch (const Json::exception&) {
    return nullptr;
  }
}

std::string type_of(const Json& value) {
  return value.is_number_integer() || value.is_number_unsigned() ? "integer" : value.type_name();
}

/// Adds the types that a schema allows: of "type", "const" and "enum", of what "$ref" points to,
/// and of the parts of "allOf", "anyOf" and "oneOf". `left` limits the schemas it visits.
void add_types(const Json& root, const Json& schema, int& left, std::vector<std::string>& types) {
  if (!schema.is_object() || --left < 0) return;
  for (const auto& [key, value] : schema.items()) {
    if (key == "type" && value.is_string()) types.push_back(value.get<std::string>());
    if (key == "type" && value.is_array())
      for (const Json& name : value)
        if (name.is_string()) types.push_back(name.get<std::string>());
    if (key == "const") types.push_back(type_of(value));
    if (key == "enum" && value.is_array())
      for (const Json& one : value) types.push_back(type_of(one));
    if (key == "$ref" && value.is_string())
      if (const Json* const target = definition(root, value.get<std::string>()))
        add_types(root, *target, left, types);
    if ((key == "allOf" || key == "anyOf" || key == "oneOf") && value.is_array())
      for (const Json& part : value) add_types(root, part, left, types);
  }
}

std::vector<std::string> types_of(const Json& root, const Json& schema) {
  std::vector<std::string> types;
  int left = 100;
  add_types(root, schema, left, types);
  return types;
}

}  // namespace

const std::vector<std::string>& OfferedTools::types(std::string_view tool,
                                                    std::string_view argument) {
  static const std::vector<std::string> kNone;
  if (!json_.empty()) read();
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return kNone;
  const auto types = found->second.find(argument);
  return types == found->second.end() ? kNone : types->second;
}

bool OfferedTools::may_call(std::string_view tool) {
  if (!json_.empty()) read();
  return names_.empty() || names_.contains(tool);
}

// If tools share a name, the first with properties counts.
void OfferedTools::read() {
  const Json tools = try_json(std::exchange(json_, {}));
  if (!tools.is_array()) return;
  for (const Json& one : tools) {
    const Json* const inner = member(one, "function");
    const Json& function = inner == nullptr ? one : *inner;
    const Json* const name = member(function, "name");
    if (name == nullptr || !name->is_string()) continue;
    names_.insert(name->get<std::string>());
    const Json* const parameters = member(function, "parameters");
    const Json* const properties =
        parameters == nullptr ? nullptr : member(*parameters, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    const auto [tool, is_new] = tools_.try_emplace(name->get<std::string>());
    if (!is_new) continue;
    for (const auto& [argument, schema] : properties->items())
      tool->second.emplace(argument, types_of(*parameters, schema));
  }
}

namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";

std::size_t after_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kJsonSpace, at), text.size());
}

std::size_t string_end(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
  return std::min(at + 1, text.size());
}

std::size_t value_end(std::string_view text, std::size_t at) {
  if (text[at] == '"') return string_end(text, at);
  if (text[at] == '{' || text[at] == '[')
    return at + JsonEnd().find(text.substr(at)).value_or(text.size() - at);
  return std::min(text.find_first_of(",]} \t\r\n", at), text.size());
}

constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr int kMaxNesting = 100;

/// Reads values from the front of a text, as JSON. The result is valid only if failed() is false.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : rest_(text) {}
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool at_end() {
    skip_spaces();
    return rest_.empty();
  }

 protected:
  /// Reads an opening bracket, items with commas between, and the closing bracket.
  template <class Item>
  void list(char close, Item&& item) {
    if (++depth_ > kMaxNesting) return fail();
    rest_.remove_prefix(1);
    skip_spaces();
    while (!failed_ && !rest_.starts_with(close)) {
      item();
      skip_spaces();
      if (!rest_.starts_with(close)) expect(',');
      skip_spaces();
    }
    if (!failed_) expect(close);
    --depth_;
  }
  /// Reads up to one of the characters in `ends`.
  std::string_view until(std::string_view ends) {
    const std::size_t end = rest_.find_first_of(ends);
    if (end == std::string_view::npos) return fail(), "";
    const std::string_view text = without_spaces(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return text;
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void expect(char c) {
    skip_spaces();
    if (!take({&c, 1})) fail();
  }
  void skip_spaces() { rest_.remove_prefix(spaces_at_start(rest_)); }
  void fail() {
    failed_ = true;
    rest_ = {};
  }

  std::string_view rest_;

 private:
  int depth_ = 0;
  bool failed_ = false;
};

class GemmaReader : public ValueReader {
 public:
  using ValueReader::ValueReader;

  std::string object() {
    std::string json = "{";
    list('}', [&] {
      json += (json.size() > 1 ? ", " : "") +
              json_string(rest_.starts_with(kGemmaQuote) ? quoted() : until(":"));
      expect(':');
      json += ": " + value();
    });
    return json + "}";
  }

 private:
  std::string value() {
    skip_spaces();
    if (rest_.starts_with(kGemmaQuote)) return json_string(quoted());
    if (rest_.starts_with('{')) return object();
    if (rest_.starts_with('[')) {
      std::string json = "[";
      list(']', [&] { json += (json.size() > 1 ? ", " : "") + value(); });
      return json + "]";
    }
    const std::string_view text = until(",}]");
    return bare_json(text).value_or(json_string(text));
  }

  std::string_view quoted() {
    rest_.remove_prefix(kGemmaQuote.size());
    const std::size_t end = rest_.find(kGemmaQuote);
    if (end == std::string_view::npos) return fail(), "";
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + kGemmaQuote.size());
    return text;
  }
};

class PythonReader : public ValueReader {
 public:
  using ValueReader::ValueReader;

  std::string value() {
    skip_spaces();
    if (rest_.starts_with('{')) return dict();
    if (rest_.starts_with('[')) return array(']');
    if (rest_.starts_with('(')) return array(')');
    if (rest_.starts_with('"') || rest_.starts_with('\'')) return json_string(string());
    const std::size_t end = std::min(rest_.find_first_of(",)]}: \t\r\n"), rest_.size());
    const auto json = bare_json(rest_.substr(0, end));
    if (!json) return fail(), "";
    rest_.remove_prefix(end);
    return *json;
  }

  /// NAME(KEY=VALUE, …)
  std::pair<std::string, std::string> call() {
    const std::string_view name = until("(");
    if (!is_identifier(name)) fail();
    std::string json;
    if (!failed())
      list(')', [&] {
        const std::string_view key = until("=");
        if (!is_identifier(key)) return fail();
        expect('=');
        json += (json.empty() ? "" : ", ") + json_string(key) + ": " + value();
      });
    return {std::string(name), "{" + json + "}"};
  }

  std::vector<std::pair<std::string, std::string>> calls() {
    skip_spaces();
    const bool bracketed = take("[");
    std::vector<std::pair<std::string, std::string>> all;
    while (!failed() && !at_end() && !(bracketed && rest_.starts_with(']'))) {
      all.push_back(call());
      skip_spaces();
      (void)take(",");
    }
    if (bracketed) expect(']');
    return failed() || !at_end() ? std::vector<std::pair<std::string, std::string>>() : all;
  }

 private:
  static bool is_identifier(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    });
  }

  std::string array(char close) {
    std::string json;
    list(close, [&] { json += (json.empty() ? "" : ", ") + value(); });
    return "[" + json + "]";
  }

  std::string dict() {
    std::string json;
    list('}', [&] {
      std::string key = value();
      expect(':');
      if (!key.starts_with('"')) key = json_string(key);
      json += (json.empty() ? "" : ", ") + key + ": " + value();
    });
    return "{" + json + "}";
  }

  std::string string() {
    const char quote = rest_.front();
    std::string text;
    for (rest_.remove_prefix(1); !take({&quote, 1});) {
      if (rest_.empty()) return fail(), "";
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\\')
        escape(text);
      else
        text += c;
    }
    return text;
  }

  void escape(std::string& text) {
    if (rest_.empty()) return fail();
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kEscapes = "abfnrtv", kMeanings = "\a\b\f\n\r\t\v";
    const std::size_t at = kEscapes.find(c);
    if (at != std::string_view::npos)
      text += kMeanings[at];
    else if (c == 'x' || c == 'u' || c == 'U')
      hexadecimal(text, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    else if (c != '\n')
      text += std::string(c == '\\' || c == '\'' || c == '"' || c == '/' ? "" : "\\") + c;
  }

  void hexadecimal(std::string& text, std::size_t digits) {
    std::uint32_t c = code_unit(digits);
    if (c >= 0xD800 && c < 0xDC00 && take("\\u"))  // JSON's pairs of surrogates
      c = 0x10000 + ((c - 0xD800) << 10U) + (code_unit(4) - 0xDC00);
    append_utf8(text, c);
  }

  std::uint32_t code_unit(std::size_t digits) {
    std::uint32_t c = 0;
    const std::string_view hex = rest_.substr(0, digits);
    const auto [end, bad] = std::from_chars(hex.data(), hex.data() + hex.size(), c, 16);
    if (bad != std::errc() || end != hex.data() + digits) return fail(), 0;
    rest_.remove_prefix(digits);
    return c;
  }
};

}  // namespace

std::optional<std::size_t> JsonEnd::find(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (in_string_) {
      if (!escaped_ && c == '"') in_string_ = false;
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      return ++at_;
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::string_view>> json_members(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> members;
  const bool is_object = text.starts_with('{');
  for (std::size_t at = after_space(text, 1);
       at < text.size() && text[at] != '}' && text[at] != ']';) {
    std::string_view key;
    if (is_object) {
      const std::size_t end = string_end(text, at);
      key = text.substr(at + 1, end - at - 2);
      at = after_space(text, after_space(text, end) + 1);  // past the colon
    }
    const std::size_t end = value_end(text, at);
    members.emplace_back(key, text.substr(at, end - at));
    at = after_space(text, end);
    if (at < text.size() && text[at] == ',') at = after_space(text, at + 1);
  }
  return members;
}

std::optional<std::string> closed_json(std::string_view text) {
  std::string closers;
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (in_string) {
      if (!escaped && c == '"') in_string = false;
      escaped = !escaped && c == '\\';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      closers.insert(closers.begin(), c == '{' ? '}' : ']');
    } else if ((c == '}' || c == ']') && !closers.empty()) {
      closers.erase(0, 1);
    }
  }
  std::string closed = std::string(text) + closers;
  return is_json(closed) ? std::optional(std::move(closed)) : std::nullopt;
}

std::string json_string(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> bare_json(std::string_view value) {
  if (value == "True") return "true";
  if (value == "False") return "false";
  if (value == "None") return "null";
  return is_json(value) ? std::optional(std::string(value)) : std::nullopt;
}

std::optional<std::string> python_json(std::string_view literal) {
  PythonReader reader(literal);
  std::string json = reader.value();
  if (reader.failed() || !reader.at_end()) return std::nullopt;
  return is_json(json) ? std::optional(std::move(json)) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> python_calls(std::string_view text) {
  return PythonReader(text).calls();
}

std::optional<std::string> json_of_gemma(std::string_view text) {
  if (!text.starts_with('{')) return std::nullopt;
  GemmaReader reader(text);
  std::string json = reader.object();
  return reader.failed() || !reader.at_end() ? std::nullopt : std::optional(std::move(json));
}

}  // namespace cria
