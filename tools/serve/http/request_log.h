// A line on stderr for each request, at its end.
#pragma once

#include <string>
#include <string_view>

#include "tools/serve/http/exchange.h"

namespace cria::serve {

struct LogOptions {
  bool json = false;   ///< a line is an object
  bool texts = false;  ///< prompts and answers too (--log-prompts)
};

/// The part of a log line that is not in the record. Texts are untrusted.
struct RequestLine {
  std::string_view id, client, method, path;
  int status = 0;
  double seconds = 0;      ///< from arrival to the answer's end
  bool cancelled = false;  ///< the client left before that
};

/// The line, without its end. Control characters are escaped, and so are quotes in texts that stand
/// in quotes; what is not known is left out.
std::string request_line(const RequestLine& line, const RequestRecord& record,
                         const LogOptions& options);

/// A message among such lines: as `text` itself, or {"time","message"}.
std::string message_line(std::string_view text, const LogOptions& options);

/// Untrusted text for a log line: control characters, backslashes and invalid UTF-8 become \xHH.
std::string escaped_text(std::string_view text);

}  // namespace cria::serve
