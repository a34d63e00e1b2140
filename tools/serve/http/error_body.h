// The body of every error, in OpenAI's form.
#pragma once

#include <string>
#include <string_view>

namespace cria::serve {

/// {"error":{"message","type","param","code"}}. The type follows from the status:
/// invalid_request_error below 500, else server_error. param: the path of the field at fault, "":
/// null. The message becomes one line without control characters; bytes that are no UTF-8 become
/// U+FFFD.
std::string error_body(int status, std::string_view message, std::string_view code,
                       std::string_view param = {});

inline constexpr std::string_view kJsonType = "application/json";

}  // namespace cria::serve
