// Values as JSON text, as Python's json.dumps writes it.
#pragma once

#include <optional>

#include "tokenizer/jinja/builtins/call.h"

namespace cria::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<Text> indent;  ///< of one level; nothing: all on one line
  Text between_items = {", ", true}, after_key = {": ", true};
};

/// Throws Failure for what JSON cannot hold (an undefined value, a function).
Text json_text(Context& context, const Value& value, const JsonStyle& style);

/// The filter that chat templates know: tojson(ensure_ascii=false, indent=none, separators=none,
/// sort_keys=false). Unlike Jinja's own it does not escape HTML.
Value tojson(Context& context, const Value& value, const Arguments& arguments);

}  // namespace cria::jinja
