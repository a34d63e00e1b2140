#include "model/file/magic.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace cria {
namespace {

struct Magic {
  std::string_view start;
  std::string_view meaning;
};

constexpr Magic kMagics[] = {
    {"FUGG", "a GGUF file with swapped bytes (big-endian)"},
    {"lmgg", "a GGML file (before GGUF): convert the model again"},
    {"fmgg", "a GGMF file (before GGUF): convert the model again"},
    {"tjgg", "a GGJT file (before GGUF): convert the model again"},
    {"algg", "a GGLA adapter (before GGUF): convert it again"},
    {"version https://git-lfs", "a Git LFS pointer: fetch the file itself with `git lfs pull`"},
    {"PK\x03\x04", "a zip archive (a PyTorch checkpoint?)"},
    {"\x1f\x8b", "a gzip archive: unpack it first"},
    {"\xfd"
     "7zXZ",
     "an xz archive: unpack it first"},
    {"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"},
    {"\x89HDF", "an HDF5 file"},
    {"%PDF", "a PDF document"},
};

bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(), [](unsigned char a, unsigned char b) {
           return std::tolower(a) == std::tolower(b);
         });
}

bool is_html(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return starts_with_ignoring_case(text, "<!doctype") || starts_with_ignoring_case(text, "<html");
}

// safetensors: the length of a JSON header in eight bytes, then the header.
bool is_safetensors(std::string_view text) {
  return text.size() > 9 && text[8] == '{' && text[7] == 0 && text[6] == 0;
}

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "the bytes";
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    out += {' ', digits[value >> 4], digits[value & 15]};
  }
  return out;
}

}  // namespace

std::string describe_magic(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 256));
  for (const Magic& magic : kMagics) {
    if (text.starts_with(magic.start)) return std::string(magic.meaning);
  }
  if (is_html(text)) return "an HTML page (a failed download?)";
  if (is_safetensors(text)) return "a safetensors file: convert it with `cria convert`";
  return hexadecimal(text.substr(0, 4));
}

}  // namespace cria
