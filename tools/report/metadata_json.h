// Metadata values as JSON, nested arrays included.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/gguf/gguf.h"

namespace cria::tools {

/// Of each array, nested ones too, at most `most` elements are taken.
nlohmann::ordered_json metadata_json(
    const GgufFile& file, const GgufValue& value,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// The same as text, indented by one space a level (the value itself stands at `indent` spaces), in
/// small pieces: as large as an array may be, no more than an element of it is in memory.
void write_metadata_json(const GgufFile& file, const GgufValue& value, std::size_t indent,
                         const std::function<void(std::string_view)>& put);

}  // namespace cria::tools
