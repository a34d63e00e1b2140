// What a file that is not GGUF seems to be.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace cria {

inline constexpr char kGgufMagic[4] = {'G', 'G', 'U', 'F'};

/// For error texts, from the first bytes: "an HTML page (a failed download?)", or the bytes
/// themselves in hexadecimal.
std::string describe_magic(std::span<const std::byte> bytes);

}  // namespace cria
