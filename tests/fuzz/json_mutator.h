// Changes JSON value by value.
#pragma once

#include "tests/fuzz/target.h"

namespace cria::fuzz {

/// For Target::mutate. Returns "" if the input is not JSON.
std::string mutate_json(std::string_view input, Random& random, std::size_t max_bytes);

}  // namespace cria::fuzz
