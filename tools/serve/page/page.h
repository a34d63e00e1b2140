// The chat page of `cria serve`: one self-contained HTML file, assembled from the files of this
// directory (assemble.cmake) and compiled into the program.
#pragma once

#include <string_view>

namespace cria::tools {

/// The page, UTF-8. It has one <script> and one <style>, no inline handlers and no style
/// attributes.
std::string_view chat_page();

/// The value of its Content-Security-Policy header: only this script and this style (by SHA-256),
/// requests only to the server.
std::string_view chat_page_policy();

}  // namespace cria::tools
