// GET /props, /slots and /lora-adapters: a model and its slots, as llama.cpp's clients ask for
// them.
#pragma once

#include "tools/serve/api/api.h"

namespace cria::serve {

/// The API must outlive the routes. None of them loads a model or keeps it from being unloaded.
std::vector<Route> server_info_routes(Api& api);

}  // namespace cria::serve
