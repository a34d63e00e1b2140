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
  std::size_t least = 0, most = 0;  ///< for Repeat; kNoLimit: unlimited
};

/// Throws ConstraintError.
RegexNode parse_regex(std::string_view expression, Budget& budget);
/// The characters of \w.
CodeSet word_codes();

// Regular expressions of ECMA 262 (in Unicode mode, without look-around and back references) as
// automata.

/// Compiles the texts that match: as a whole, or with a match anywhere. Throws ConstraintError ("at
/// character 5") for an invalid or unsupported expression.
CharDfa regex_dfa(std::string_view expression, bool anywhere, Budget& budget);

}  // namespace cria
