// Metadata values as JSON, nested arrays included.
#pragma once

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/gguf.h"

namespace cria::tools {

/// Of each array, nested ones too, at most `most` elements are taken.
nlohmann::ordered_json metadata_json(const GgufFile& file, const GgufValue& value,
                                     std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

}  // namespace cria::tools
