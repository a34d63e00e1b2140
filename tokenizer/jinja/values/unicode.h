// Characters of UTF-8 text as Python's str sees them. Bytes that are not UTF-8 count as one
// character each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cria::jinja {

/// Characters of a text.
std::size_t length(std::string_view text);
/// Where the character begins in the bytes (size() for those past the end).
std::size_t offset_of(std::string_view text, std::size_t character);
/// Where the last character before byte `at` begins. at > 0.
std::size_t previous_char(std::string_view text, std::size_t at);

/// As Python's str.isspace and the \s of its regular expressions.
bool is_space(char32_t c) noexcept;
/// As str.splitlines has it: "\r\n" is one break, found by the caller.
bool is_line_break(char32_t c) noexcept;
/// Whether repr shows the character as it is: no control, format, private or unassigned one, no
/// white space but " ".
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
/// Has upper and lower case forms, or is a title case letter.
bool is_cased(char32_t c);

/// Full case mappings of Unicode ("ß" becomes "SS"), no language's own rules.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// Every letter in title case ("ǆ" becomes "ǅ").
std::string title_case(std::string_view text);
std::string case_fold(std::string_view text);

}  // namespace cria::jinja
