// POST /infill: completions that fill a gap in a text, for editors.
#pragma once

#include "tools/serve/api/api.h"

namespace cria::serve {

/// Returns the equal request of completions. Throws RequestError that names the field at fault.
EqualRequest read_infill_request(const RequestJson& body);

/// The API must outlive the routes.
std::vector<Route> infill_routes(Api& api);

}  // namespace cria::serve
