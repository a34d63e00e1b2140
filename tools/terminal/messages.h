// What is said to a person on stderr, beside the answer on stdout.
#pragma once

#include <string_view>

namespace cria::tools {

/// One line on stderr; where that is a terminal, broken at words and without control characters.
void print_line(std::string_view text);
/// "cria: error: …", and likewise.
void print_error(std::string_view text);
void print_warning(std::string_view text);
void print_note(std::string_view text);

/// The text with its lines broken at words and without control characters where stdout is a
/// terminal, as it is elsewhere. Lines that fit stay as they are.
void write_text(std::string_view text);

}  // namespace cria::tools
