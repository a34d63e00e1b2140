// Values in calls of tools that are not written as JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cria {

/// The text as a JSON string.
std::string json_string(std::string_view text);
/// A bare value as JSON, if it is that: some models write Python's words.
std::optional<std::string> bare_json(std::string_view value);

}  // namespace cria
