// Ollama's API, as another form of chat completions, completions and embeddings.
#pragma once

#include <string>
#include <vector>

#include "tools/serve/api/api.h"

namespace cria::serve {

/// Return the equal request of /api/chat, and of /api/generate with a prompt. Throw RequestError
/// that names the field at fault.
EqualRequest read_ollama_chat(const RequestJson& body);
EqualRequest read_ollama_generate(const RequestJson& body);

/// Returns a time in RFC 3339.
std::string ollama_time(std::int64_t seconds_since_1970);

/// The answers of /api/tags, /api/ps and /api/show.
RequestJson ollama_tags(ModelPool& pool);
RequestJson ollama_loaded(ModelPool& pool);
RequestJson ollama_show(const ServedModel& model, bool verbose);

/// The routes below /api. The API must outlive them.
std::vector<Route> ollama_routes(Api& api);

}  // namespace cria::serve
