// JSON as template values.
#pragma once

#include <optional>
#include <string_view>

#include "model/file/json.h"
#include "tokenizer/jinja/builtins/builtins.h"
#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// Texts are untrusted: markers in them never become control tokens. Throws Failure if the JSON is
/// nested too deeply.
Value from_json(const Json& json);
/// Parses a text in linear time; throws Failure if it is not JSON.
Value parse_json(std::string_view text);

// Values as JSON text, as Python's json.dumps writes it.

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  ///< indentation of one level; nullopt: all on one line
  Text between_items = {", ", true}, after_key = {": ", true};
};

/// Throws Failure for what JSON cannot hold (an undefined value, a function).
Text json_text(Context& context, const Value& value, const JsonStyle& style);

/// The filter that chat templates know: tojson(ensure_ascii=false, indent=none, separators=none,
/// sort_keys=false). Unlike Jinja's own it does not escape HTML.
Value tojson(Context& context, const Value& value, const Arguments& arguments);

}  // namespace cria::jinja
