// What is shown to a person: colour only on a terminal, numbers in units that can be read.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace cria::tools {

bool is_terminal(std::FILE* stream);

/// Whether escape sequences can go there: the stream is a terminal that is not dumb.
bool takes_sequences(std::FILE* stream);

enum class Style { Bold, Dim, Prompt };
/// Whether styles can be seen: the stream takes sequences, and NO_COLOR is not set.
bool shows_styles(std::FILE* stream);
/// The text in a style, where that can be seen.
std::string styled(std::FILE* stream, Style style, std::string_view text);

/// Text of a stranger (a model, a file) without control characters that could drive the terminal:
/// "^[" and
/// "\u009b" stand for them. Newlines and tabs stay.
std::string without_controls(std::string_view text);
/// Likewise DEL and C1 (U+007F to U+009F) only, which JSON need not escape: JSON means the same
/// without them.
std::string without_del_and_c1(std::string_view text);
/// Text of a stranger as it goes there: without controls to a terminal, else as it is.
std::string for_stream(std::FILE* stream, std::string_view text);

std::string human_bytes(std::uint64_t bytes);   ///< "7.4 MiB"
std::string human_count(std::uint64_t count);   ///< "7.34 M"
std::string fixed(double value, int decimals);  ///< "3.14"
std::string significant(double value);          ///< "0.00123", "1.7e-08": four digits that count

}  // namespace cria::tools
