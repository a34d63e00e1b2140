// The target of a request line: "/path?query", or with a proxy "http://host/path?query".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cria::serve {

struct Target {
  std::string path;   ///< percent-decoded; "*" for OPTIONS *
  std::string query;  ///< as sent
  std::string host;   ///< with port, of a target that names one; else ""
};

/// Nothing for what is none: no path, a percent sign without two digits, an encoded NUL.
std::optional<Target> parse_target(std::string_view text);

}  // namespace cria::serve
