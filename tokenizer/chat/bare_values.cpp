#include "tokenizer/chat/bare_values.h"

#include <nlohmann/json.hpp>

namespace cria {

std::string json_string(std::string_view text) {
  using Json = nlohmann::json;
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::string> bare_json(std::string_view value) {
  if (value == "True") return "true";
  if (value == "False") return "false";
  if (value == "None") return "null";
  return nlohmann::json::accept(value) ? std::optional(std::string(value)) : std::nullopt;
}

}  // namespace cria
