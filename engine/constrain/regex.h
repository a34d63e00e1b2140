// Regular expressions of ECMA 262 (in Unicode mode, without look-around and back references) as
// automata.
#pragma once

#include <string_view>

#include "engine/constrain/char_dfa.h"

namespace cria {

/// Texts that match: whole, or with a match anywhere in them. Throws ConstraintError ("at character
/// 5") for what is no expression or not supported.
CharDfa regex_dfa(std::string_view expression, bool anywhere, Budget& budget);

}  // namespace cria
