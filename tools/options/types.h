// Tensor types, quantizations and sizes by the names that users give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cria::tools {

/// Names of the types that matrices can have, and of the quantizations, as the program writes them.
std::vector<std::string> weight_type_names();
std::vector<std::string> mix_names();

/// "there is no tensor type Q9_Z; there are: …", and likewise, with the nearest name where one is
/// near.
std::string unknown_type_text(const std::string& name);
std::string unknown_mix_text(const std::string& name);

/// Bytes of "2G", "500MB" (powers of 1000) or "5MiB" (powers of 1024), in any case. Throws a usage
/// error that names the option.
std::uint64_t parse_size(const std::string& option, const std::string& text);

}  // namespace cria::tools
