// This machine as text and JSON: processor, caches, memory, instruction sets and, where asked for,
// measured limits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cria::tools {

/// measure: with the roofline of all physical cores, which takes some seconds.
std::string cpu_text(bool measure);
nlohmann::ordered_json cpu_json(bool measure);

}  // namespace cria::tools
