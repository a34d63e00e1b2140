#include "tools/serve/http/error_body.h"

#include <nlohmann/json.hpp>

#include "model/error.h"

namespace cria::serve {

std::string error_body(int status, std::string_view message, std::string_view code,
                       std::string_view param) {
  nlohmann::ordered_json error = {{"message", printable(message)},
                                  {"type", status < 500 ? "invalid_request_error" : "server_error"},
                                  {"param", nullptr},
                                  {"code", code}};
  if (!param.empty()) error["param"] = param;
  return nlohmann::ordered_json{{"error", std::move(error)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cria::serve
