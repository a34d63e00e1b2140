// The methods of strings, lists and dicts that templates can call.
#pragma once

#include <optional>
#include <string_view>

#include "tokenizer/jinja/builtins/call.h"

namespace cria::jinja {

/// The method of this name, bound to the value. Nothing if it has none. One that would change the
/// value is undefined, as in Jinja's sandbox.
std::optional<Value> method(const Value& value, std::string_view name);

/// Lists made of texts.
Value text_list(Context& context, std::vector<Text> texts);

}  // namespace cria::jinja
