// JSON as template values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// Its texts are a stranger's: no marker in them is ever a control token. Throws Failure if it is
/// nested too deeply or an integer has more than 64 bits.
Value from_json(const nlohmann::ordered_json& json);
/// What becomes of integers from 2^63 to 2^64 - 1, with which templates cannot compute exactly.
enum class LargeIntegers : std::uint8_t { Refuse, Keep };
/// The same of a text, in linear time; throws Failure too where it is no JSON.
Value parse_json(std::string_view text, LargeIntegers large = LargeIntegers::Keep);

}  // namespace cria::jinja
