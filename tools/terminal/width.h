// Columns: how wide the terminal is, how wide a text is on it, and text made to fit.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace cria::tools {

/// Columns of the stream's terminal as it is now; 0 where the stream is no terminal.
std::size_t terminal_columns(std::FILE* stream);

/// Columns that a text of one line takes: wide characters take two, what joins or marks others
/// none, and so do sequences that set a style.
std::size_t display_width(std::string_view text);

/// The text, or as much of it as fits into so many columns with "…" at the end.
std::string shortened(std::string_view text, std::size_t columns);

/// The text in pieces of at most so many columns, at least 1, that make it up again; a character
/// that is wider is "…".
std::vector<std::string> pieces(std::string_view text, std::size_t columns);

/// The text in lines of at most so many columns, broken at blanks; words that are longer stand
/// alone and are not cut. Lines after the first of a paragraph begin with `indent` blanks. Newlines
/// in the text stay.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent = 0);

}  // namespace cria::tools
