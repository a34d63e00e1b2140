// How the arguments of a macro's call find their parameters.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tokenizer/jinja/builtins/call.h"
#include "tokenizer/jinja/syntax/ast.h"

namespace cria::jinja {

struct MacroArguments {
  std::vector<std::optional<Value>> parameters;  ///< one per parameter of the definition
  std::vector<std::pair<std::string, Value>>
      special;  ///< caller, varargs, kwargs, where the macro uses them
};

/// Throws Failure for arguments that the macro does not take. Left out ones are allowed.
MacroArguments match_arguments(const MacroDefinition& macro, const Arguments& arguments);

}  // namespace cria::jinja
