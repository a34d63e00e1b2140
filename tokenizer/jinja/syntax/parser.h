// A template's source to its tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/syntax/ast.h"

namespace cria::jinja {

struct Tree {
  Body body;
  std::vector<std::string>
      variables;  ///< every one that is read, also where the template sets it itself
  std::vector<std::string> members;  ///< attributes, and texts that may be keys
};

/// Throws SyntaxError.
Tree parse(std::string_view normalized_source);

}  // namespace cria::jinja
