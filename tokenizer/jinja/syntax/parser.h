// A template's source to its tree.
#pragma once

#include <string_view>

#include "tokenizer/jinja/syntax/ast.h"

namespace cria::jinja {

/// Throws SyntaxError.
Body parse(std::string_view normalized_source);

}  // namespace cria::jinja
