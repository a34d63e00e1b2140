// JSON as the text of an answer.
#pragma once

#include <string>

#include "tools/options/fields.h"

namespace cria::serve {

/// On one line; bytes that are no UTF-8 become U+FFFD.
inline std::string json_text(const tools::RequestJson& json) {
  return json.dump(-1, ' ', false, tools::RequestJson::error_handler_t::replace);
}

}  // namespace cria::serve
