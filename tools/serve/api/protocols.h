// Protocols other than OpenAI's completions: their routes, and readers that turn each request into
// an equal one for completions. APIs must outlive their routes.
#pragma once

#include <string>
#include <vector>

#include "tools/serve/api/api.h"

namespace cria::serve {

// ---- Anthropic's Messages API

/// Returns the equal request of chat completions. Throws RequestError that names the field at
/// fault.
EqualRequest read_messages_request(const Json& body);

/// The routes of /v1/messages and /v1/messages/count_tokens, also without /v1. The API must outlive
/// them.
std::vector<Route> messages_routes(Api& api);

// ---- OpenAI's Responses API

/// Returns the equal request of chat completions. The store must outlive its reply. Throws
/// RequestError that names the field at fault.
EqualRequest read_responses_request(const Json& body, std::uint64_t scope, ResponseStore& store);

/// Reads "input", "instructions" and "previous_response_id" as the messages of an equal request.
/// json_parts: messages may have parts {"type": "input_json", "data"}.
void read_response_input(const Fields& body, std::uint64_t scope, ResponseStore& store,
                         EqualRequest& to, bool json_parts = false);

/// The routes of /v1/responses and below, also without /v1. API and store must outlive them.
std::vector<Route> responses_routes(Api& api, ResponseStore& store);

// ---- Ollama's API

/// Return the equal request of /api/chat, and of /api/generate with a prompt. Throw RequestError
/// that names the field at fault.
EqualRequest read_ollama_chat(const Json& body);
EqualRequest read_ollama_generate(const Json& body);

/// Returns a time in RFC 3339.
std::string ollama_time(std::int64_t seconds_since_1970);

/// The answers of /api/tags, /api/ps and /api/show.
Json ollama_tags(ModelPool& pool);
Json ollama_loaded(ModelPool& pool);
Json ollama_show(const ServedModel& model, bool verbose);

/// The routes below /api. The API must outlive them.
std::vector<Route> ollama_routes(Api& api);

// ---- POST /infill: completions that fill a gap in a text, for editors

/// Returns the equal request of completions. Throws RequestError that names the field at fault.
EqualRequest read_infill_request(const Json& body);

/// The API must outlive the routes.
std::vector<Route> infill_routes(Api& api);

// ---- GET /props, /slots and /lora-adapters, as llama.cpp's clients ask for them

/// The API must outlive the routes. None of them loads a model or keeps it from being unloaded.
std::vector<Route> server_info_routes(Api& api);

// ---- paths of other servers

/// Routes that answer 404 with what to use instead.
std::vector<Route> other_routes();

}  // namespace cria::serve
