// Whether two JSON values are equal.
#pragma once

#include <nlohmann/json.hpp>

namespace cria {

/// As JSON Schema 2020-12 (core, 4.2.2) has it: whatever the order of an object's members; 1
/// is 1.0.
bool same_value(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

}  // namespace cria
