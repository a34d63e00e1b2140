#include "tokenizer/bpe/byte_text.h"

#include <array>
#include <cstdint>

#include "model/file/utf8.h"

namespace cria {

namespace {

constexpr std::int16_t kNoByte = -1;
constexpr std::size_t kCharacters = 0x144;  // the last one stands for the soft hyphen, 0xAD

constexpr bool is_itself(std::size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<std::int16_t, kCharacters> kByteOfCharacter = [] {
  std::array<std::int16_t, kCharacters> bytes{};
  bytes.fill(kNoByte);
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes[is_itself(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  return bytes;
}();

}  // namespace

void append_bytes_of_byte_text(std::string_view text, std::string& bytes) {
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (c.valid && c.code_point < kCharacters && kByteOfCharacter[c.code_point] != kNoByte)
      bytes.push_back(static_cast<char>(kByteOfCharacter[c.code_point]));
    else
      bytes.append(text.substr(0, c.bytes));
    text.remove_prefix(c.bytes);
  }
}

std::string bytes_of_byte_text(std::string_view text) {
  std::string bytes;
  append_bytes_of_byte_text(text, bytes);
  return bytes;
}

}  // namespace cria
