// The JSON header of a safetensors file, event by event: nothing is kept but what a tensor needs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors/safetensors.h"

namespace cria {

/// What the header says of one tensor.
struct SafetensorsEntry {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<std::uint64_t> shape{};
  std::uint64_t begin = 0, end = 0;  ///< bytes within the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< as they stand
  std::map<std::string, std::string> metadata;
};

/// Throws Error unless the text is a header and each tensor's bytes fit its type and shape. file
/// names it in errors.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace cria
