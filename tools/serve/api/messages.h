// Anthropic's Messages API, as another form of chat completions.
#pragma once

#include <vector>

#include "tools/serve/api/api.h"

namespace cria::serve {

/// Returns the equal request of chat completions. Throws RequestError that names the field at
/// fault.
EqualRequest read_messages_request(const RequestJson& body);

/// The routes of /v1/messages and /v1/messages/count_tokens, also without /v1. The API must outlive
/// them.
std::vector<Route> messages_routes(Api& api);

}  // namespace cria::serve
