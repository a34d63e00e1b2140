// JSON as every command prints it, and metadata of a file as JSON.
#pragma once
#include <cstddef>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/gguf/gguf.h"

namespace cria::tools {

/// Indented by one blank, with a newline at the end; invalid UTF-8 becomes U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);
/// On one line with a newline, for a line of many.
std::string json_line(const nlohmann::ordered_json& json);

/// Takes at most `most` elements of each array, also of nested ones.
nlohmann::ordered_json metadata_json(
    const GgufFile& file, const GgufValue& value,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// The same as text, indented by one space a level (the value itself stands at `indent` spaces), in
/// small pieces: only one array element is in memory at a time.
void write_metadata_json(const GgufFile& file, const GgufValue& value, std::size_t indent,
                         const std::function<void(std::string_view)>& put);

}  // namespace cria::tools
