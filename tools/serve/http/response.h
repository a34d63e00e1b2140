// The text of an answer: status line and fields, chunks of a stream.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/http/exchange.h"

namespace cria::serve {

struct ResponseHead {
  int status = 200;
  std::string_view content_type;      ///< "": there is no body
  std::optional<std::size_t> length;  ///< nothing: unknown before the end
  std::string_view id;                ///< X-Request-Id
  bool chunked = false, close = false, keep_alive_said = false;  ///< the last for HTTP/1.0
};

/// With the empty line. What every answer has is added to `more`; a CR or LF in a value becomes a
/// blank.
std::string head_text(const ResponseHead& head, const Headers& more);
/// One chunk of a body in pieces; `data` is not empty.
std::string chunk_text(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace cria::serve
