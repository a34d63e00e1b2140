#include "tokenizer/jinja/values/unicode.h"

#include <unicase.h>
#include <unictype.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>

#include "model/file/utf8.h"

namespace cria::jinja {
namespace {

bool in_category(char32_t c, std::uint32_t mask) {
  return uc_is_general_category_withtable(c, mask);
}

using Mapping = std::uint8_t* (*)(const std::uint8_t*, std::size_t, const char*, uninorm_t,
                                  std::uint8_t*, std::size_t*);

void map_valid(std::string_view text, Mapping mapping, std::string& out) {
  if (text.empty()) return;
  std::size_t size = 0;
  const std::unique_ptr<std::uint8_t, void (*)(void*)> mapped(
      mapping(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr, nullptr,
              nullptr, &size),
      &std::free);
  if (mapped == nullptr) throw std::bad_alloc();
  out.append(reinterpret_cast<const char*>(mapped.get()), size);
}

// The library refuses text that is not UTF-8: such bytes are copied, what lies between them is
// mapped.
std::string map(std::string_view text, Mapping mapping) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = first_char(text.substr(at));
    if (!c.valid) {
      map_valid(text.substr(begin, at - begin), mapping, out);
      out += text[at];
      begin = at + 1;
    }
    at += c.bytes;
  }
  map_valid(text.substr(begin), mapping, out);
  return out;
}

}  // namespace

std::size_t length(std::string_view text) {
  std::size_t n = 0;
  for (std::size_t at = 0; at < text.size(); at += first_char(text.substr(at)).bytes) ++n;
  return n;
}

std::size_t offset_of(std::string_view text, std::size_t character) {
  std::size_t at = 0;
  for (; character > 0 && at < text.size(); --character) at += first_char(text.substr(at)).bytes;
  return at;
}

std::size_t previous_char(std::string_view text, std::size_t at) {
  for (std::size_t bytes = 4; bytes > 1; --bytes) {
    if (bytes > at) continue;
    const Utf8Char c = first_char(text.substr(at - bytes, bytes));
    if (c.valid && c.bytes == bytes) return at - bytes;
  }
  return at - 1;
}

bool is_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) noexcept {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) {
  return c == U' ' || !in_category(c, UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Z);
}
bool is_alpha(char32_t c) { return in_category(c, UC_CATEGORY_MASK_L); }
bool is_decimal(char32_t c) { return uc_decimal_value(c) >= 0; }
bool is_digit(char32_t c) { return uc_digit_value(c) >= 0; }
bool is_numeric(char32_t c) { return uc_numeric_value(c).denominator != 0; }
bool is_upper(char32_t c) { return uc_is_property_uppercase(c); }
bool is_lower(char32_t c) { return uc_is_property_lowercase(c); }
bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || in_category(c, UC_CATEGORY_MASK_Lt);
}

std::string upper(std::string_view text) { return map(text, &u8_toupper); }
std::string lower(std::string_view text) { return map(text, &u8_tolower); }
std::string title_case(std::string_view text) { return map(text, &u8_totitle); }
std::string case_fold(std::string_view text) { return map(text, &u8_casefold); }

}  // namespace cria::jinja
