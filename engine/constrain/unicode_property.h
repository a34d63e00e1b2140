// Sets of code points by what Unicode says of them.
#pragma once

#include <optional>
#include <string_view>

#include "engine/constrain/code_points.h"

namespace cria {

/// By what stands within the braces of \p{…} as ECMAScript has it: a general category ("Lu",
/// "Uppercase_Letter", "gc=Lu"), a script ("Script=Greek", "scx=Grek") or a property that a code
/// point has or has not ("Alphabetic"). Nothing where there is no such property. PCRE2 is asked
/// about all code points, which takes a hundredth of a second.
std::optional<CodeSet> codes_with_property(std::string_view property, Budget& budget);

}  // namespace cria
