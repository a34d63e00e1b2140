// The arguments of a call as Gemma 4 writes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cria {

/// JSON of {KEY:VALUE,…}, where keys are bare and texts stand between <|"|> and <|"|>; lists and
/// numbers are as in JSON. A bare value that is no JSON is a text. Nothing where the text is
/// anything else.
std::optional<std::string> json_of_gemma(std::string_view text);

}  // namespace cria
