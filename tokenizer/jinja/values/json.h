// JSON as template values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// Its texts are a stranger's: no marker in them is ever a control token. Throws Failure if it is nested too
/// deeply or an integer has more than 64 bits.
Value from_json(const nlohmann::ordered_json& json);
/// The same of a text, in linear time; throws Failure too where it is no JSON.
Value parse_json(std::string_view text);

}  // namespace cria::jinja
