// The chat page of `cria serve`: one HTML file without anything from elsewhere, put together from
// the parts beside this header (assemble.cmake) and compiled into the program.
#pragma once

#include <string_view>

namespace cria::tools {

/// The page, UTF-8. It has one <script> and one <style>, no inline handlers and no style
/// attributes.
std::string_view chat_page();

/// The value of its Content-Security-Policy header: nothing but this script and this style (by
/// SHA-256), requests to the server alone.
std::string_view chat_page_policy();

}  // namespace cria::tools
