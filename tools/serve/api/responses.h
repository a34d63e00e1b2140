// OpenAI's Responses API, as another form of chat completions.
#pragma once

#include <vector>

#include "tools/serve/api/api.h"

namespace cria::serve {

/// Returns the equal request of chat completions. The store must outlive its reply. Throws
/// RequestError that names the field at fault.
EqualRequest read_responses_request(const RequestJson& body, std::uint64_t scope,
                                    ResponseStore& store);

/// Reads "input", "instructions" and "previous_response_id" as the messages of an equal request.
/// json_parts: messages may have parts {"type": "input_json", "data"}.
void read_response_input(const Fields& body, std::uint64_t scope, ResponseStore& store,
                         EqualRequest& to, bool json_parts = false);

/// The routes of /v1/responses and below, also without /v1. API and store must outlive them.
std::vector<Route> responses_routes(Api& api, ResponseStore& store);

}  // namespace cria::serve
