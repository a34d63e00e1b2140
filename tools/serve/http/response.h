// HTTP responses, their error bodies, and the table of routes.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/http/exchange.h"

namespace cria::serve {

/// The protocols have errors of their own forms.
enum class Protocol : std::uint8_t { OpenAi, Messages, Ollama };
/// Returns the protocol that a path belongs to.
Protocol protocol_of(std::string_view path);

/// Returns the body of an error in the form of the path of the request.
/// OpenAI: {"error":{"message","type","param","code"}}. The type follows from the status:
/// invalid_request_error below 500, else server_error. param: the path of the field at fault, "":
/// null. Messages: {"type":"error","error":{"type","message"},"request_id"}. Ollama:
/// {"error":"message"}. The message becomes one line without control characters; invalid UTF-8
/// becomes U+FFFD.
std::string error_body(const Request& request, int status, std::string_view message,
                       std::string_view code, std::string_view param = {});

inline constexpr std::string_view kJsonType = "application/json";

struct ResponseHead {
  int status = 200;
  std::string_view content_type;      ///< "": no body
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

class RouteTable {
 public:
  RouteTable() = default;
  explicit RouteTable(std::vector<Route> routes) : routes_(std::move(routes)) {}

  struct Match {
    const Route* route = nullptr;  ///< null: the path or the method is not there
    std::string parameter;
    std::string allowed;  ///< the methods of a known path, as in the header Allow
  };
  /// method: as sent; HEAD finds what GET finds. A path without parameter hides those with one.
  [[nodiscard]] Match find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace cria::serve
