// Is it UTF-8?
#pragma once

#include <string_view>

namespace cria {

/// Well-formed as in Unicode table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

}  // namespace cria
