// JSON as every subcommand prints it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cria::tools {

/// The one layout: indented by one blank, a newline at the end; bytes that are no UTF-8 become
/// U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);
/// On one line with a newline, for a line of many.
std::string json_line(const nlohmann::ordered_json& json);

}  // namespace cria::tools
