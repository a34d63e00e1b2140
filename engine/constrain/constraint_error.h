// Why a constraint is refused: a public header of engine/.
#pragma once

#include <string>
#include <string_view>

#include "model/error.h"

namespace cria {

/// A schema, grammar or expression that cannot be enforced, has no text at all, or costs too much
/// to compile.
class ConstraintError : public Error {
 public:
  ConstraintError(std::string_view message, std::string_view where, bool is_malformed = false)
      : Error("", message, where.empty() ? std::string() : "at " + std::string(where)),
        place(where),
        malformed(is_malformed) {}
  std::string place;  ///< "/properties/a/not" in a schema ("" is all of it), "line 3, column 5" in
                      ///< a grammar
  bool malformed;     ///< the schema itself is invalid, not just unsupported
};

}  // namespace cria
