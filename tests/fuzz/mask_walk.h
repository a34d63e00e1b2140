// Follows a constraint's masks and compares each with the slow definition.
#pragma once

#include <memory>
#include <string_view>

#include "engine/constrain/constraint.h"

namespace cria::fuzz {

/// Makes a few walks of random tokens, seeded by the input. Throws Violation.
void walk_masks(const Constraint& constraint, std::string_view input);

}  // namespace cria::fuzz
