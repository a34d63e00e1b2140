// Walks along a constraint's masks, each compared with the slow definition.
#pragma once

#include <memory>
#include <string_view>

#include "engine/constrain/constraint.h"

namespace cria::fuzz {

/// A few walks of random tokens; what is drawn depends on the input. Throws Violation.
void walk_masks(const Constraint& constraint, std::string_view input);

}  // namespace cria::fuzz
