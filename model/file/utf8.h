// UTF-8 as Unicode defines it (no overlong forms, no surrogates): the characters of a text, one at
// a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cria {

struct Utf8Char {
  std::size_t bytes;    ///< 1 to 4; 1 if not valid
  char32_t code_point;  ///< if valid
  bool valid;
  bool truncated;  ///< not valid, but more bytes could make it so
};

/// The character at the start of a text that is not empty.
inline Utf8Char first_char(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, 0, false, false};
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (i == text.size()) return {1, 0, false, true};
    // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
    const std::uint8_t low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return {1, 0, false, false};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  return {bytes, code, true, false};
}

/// Calls visit(character, its place in the text) for each character.
template <class Visit>
void each_char(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = first_char(text.substr(at));
    visit(c, at);
    at += c.bytes;
  }
}

/// The text with a … z in place of A … Z.
inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// Number of ASCII bytes at the start of a text.
inline std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t eight = 0; text.size() - at >= 8; at += 8) {
    std::memcpy(&eight, text.data() + at, 8);
    if ((eight & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

/// Number of bytes at the start of a text that are valid UTF-8.
inline std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while ((at += ascii_prefix(text.substr(at))) < text.size()) {
    const Utf8Char c = first_char(text.substr(at));
    if (!c.valid) break;
    at += c.bytes;
  }
  return at;
}

inline bool is_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

/// Appends a code point; surrogates and numbers too large become U+FFFD.
inline void append_utf8(std::string& out, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
  const auto put = [&out](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | (c >> 6));
  } else {
    if (c < 0x10000) {
      put(0xE0 | (c >> 12));
    } else {
      put(0xF0 | (c >> 18));
      put(0x80 | ((c >> 12) & 0x3F));
    }
    put(0x80 | ((c >> 6) & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

/// Unicode's White_Space.
inline bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace cria
