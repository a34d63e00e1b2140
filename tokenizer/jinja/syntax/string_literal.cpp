#include "tokenizer/jinja/syntax/string_literal.h"

#include <charconv>

#include "model/file/utf8.h"
#include "tokenizer/jinja/syntax/lexer.h"

namespace cria::jinja {
namespace {

/// A code point of exactly `digits` hexadecimal digits.
char32_t hex(std::string_view text, std::size_t digits, std::size_t at) {
  std::uint32_t code = 0;
  const std::string_view number = text.substr(0, digits);
  const auto [end, bad] = std::from_chars(number.data(), number.data() + number.size(), code, 16);
  if (bad != std::errc() || end != number.data() + digits || code > 0x10FFFF)
    throw SyntaxError(
        "bad escape in a string: expected " + std::to_string(digits) + " hexadecimal digits", at);
  return code;
}

/// Appends what the escape after a backslash stands for; returns how many bytes it has.
std::size_t escape(std::string_view text, std::size_t at, std::string& out) {
  constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
  const char c = text[0];
  if (c == '\n') return 1;
  if (const std::size_t i = kNames.find(c); i != std::string_view::npos)
    return out += kValues[i], 1;
  if (c >= '0' && c <= '7') {
    std::size_t n = 0;
    char32_t code = 0;
    while (n < 3 && n < text.size() && text[n] >= '0' && text[n] <= '7')
      code = code * 8 + static_cast<char32_t>(text[n++] - '0');
    append_utf8(out, code);
    return n;
  }
  if (const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0; digits != 0) {
    append_utf8(out, hex(text.substr(1), digits, at));
    return 1 + digits;
  }
  out += '\\';  // unknown: the backslash stays, and what follows is read on
  return 0;
}

}  // namespace

std::string unescaped(std::string_view quoted, std::size_t at) {
  std::string out;
  for (std::size_t i = 0; i < quoted.size();) {
    if (quoted[i] != '\\') {
      out += quoted[i++];
      continue;
    }
    ++i;
    if (i == quoted.size()) throw SyntaxError("a string ends in a backslash", at);
    i += escape(quoted.substr(i), at + i, out);
  }
  return out;
}

}  // namespace cria::jinja
