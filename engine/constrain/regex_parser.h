// The parts of a regular expression.
#pragma once

#include <string_view>
#include <vector>

#include "engine/constrain/code_points.h"

namespace cria {

struct RegexNode {
  enum class Kind : std::uint8_t {
    Codes,
    Sequence,
    Choice,
    Repeat,
    Begin,
    End,
    WordEdge,
    NoWordEdge
  };
  Kind kind = Kind::Sequence;
  CodeSet codes;
  std::vector<RegexNode> parts;     ///< one of a Repeat
  std::size_t least = 0, most = 0;  ///< of a Repeat; kNoLimit
};

/// Throws ConstraintError.
RegexNode parse_regex(std::string_view expression, Budget& budget);
/// What \w takes.
CodeSet word_codes();

}  // namespace cria
