// How byte-level vocabularies write bytes as text: every byte is one visible character (the table
// of GPT-2's encoder). Printable Latin-1 characters stand for themselves, the other 68 bytes for
// U+0100 … in their order.
#pragma once

#include <string>
#include <string_view>

namespace cria {

/// The bytes that a byte-level token stands for. Characters outside the table, and bytes that are
/// no UTF-8, stand for themselves.
std::string bytes_of_byte_text(std::string_view text);

/// bytes_of_byte_text, appended.
void append_bytes_of_byte_text(std::string_view text, std::string& bytes);

}  // namespace cria
