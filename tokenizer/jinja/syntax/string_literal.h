// What a quoted string in a template says.
#pragma once

#include <string>
#include <string_view>

namespace cria::jinja {

/// The text between the quotes with Python's escapes resolved (\n, \x41, \u00e9, \101, …); unknown
/// ones stay as they are. `at` is its byte in the source. Throws SyntaxError for an escape that is
/// cut short.
std::string unescaped(std::string_view quoted, std::size_t at);

}  // namespace cria::jinja
