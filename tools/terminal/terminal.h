// The terminal of a stream, and messages on stderr.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace cria::tools {

bool is_terminal(std::FILE* stream);

/// True if the stream takes escape sequences: a terminal that is not dumb.
bool takes_sequences(std::FILE* stream);

enum class Style { Bold, Dim, Prompt };
/// True if styles are visible: the stream takes sequences and NO_COLOR is not set.
bool shows_styles(std::FILE* stream);
/// The text in a style, where that can be seen.
std::string styled(std::FILE* stream, Style style, std::string_view text);

/// Untrusted text (a model's, a file's) without control characters:
/// "^[" and
/// "\u009b" stand for them. Newlines and tabs stay.
std::string without_controls(std::string_view text);
/// The same for DEL and C1 (U+007F to U+009F), which JSON does not escape.
std::string without_del_and_c1(std::string_view text);
/// Untrusted text for a stream: without controls on a terminal, else unchanged.
std::string for_stream(std::FILE* stream, std::string_view text);

std::string human_bytes(std::uint64_t bytes);   ///< "7.4 MiB"
std::string human_count(std::uint64_t count);   ///< "7.34 M"
std::string fixed(double value, int decimals);  ///< "3.14"
std::string significant(double value);          ///< "0.00123", "1.7e-08": four digits that count

/// One line on stderr; where that is a terminal, broken at words and without control characters.
void print_line(std::string_view text);
/// "cria: error: …", "cria: warning: …", "cria: note: …".
void print_error(std::string_view text);
void print_warning(std::string_view text);
void print_note(std::string_view text);

/// The text with its lines broken at words and without control characters where stdout is a
/// terminal, as it is elsewhere. Lines that fit stay as they are.
void write_text(std::string_view text);

}  // namespace cria::tools
