// Metadata values as JSON, nested arrays included.
#pragma once

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/gguf.h"

namespace cria::tools {

/// version: of the file, which decides how lengths are stored. Of every array at most `most` elements are
/// taken.
nlohmann::ordered_json metadata_json(const GgufValue& value, std::uint32_t version,
                                     std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace cria::tools
