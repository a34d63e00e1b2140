// The functions that every template can call by name.
#pragma once

#include "tokenizer/jinja/builtins/call.h"

namespace cria::jinja {

/// range, dict, namespace, cycler, joiner; raise_exception and strftime_now, which chat templates
/// expect too. Undefined for any other name.
Value global_function(const std::string& name);

}  // namespace cria::jinja
