// Help texts that fit the terminal.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace cria::tools {

/// Columns for texts on the stream: its terminal's, at most 110; 80 where it is none.
std::size_t help_columns(std::FILE* stream);

/// "  run   Answer one prompt …", an entry for each subcommand, in lines of at most so many
/// columns.
std::string command_list(const CLI::App& app, std::size_t columns);

/// Notes and examples: paragraphs are broken at words, and so are commands (lines that begin with
/// blanks), so that a shell still reads them as one.
std::string footer_text(const std::string& footer, std::size_t columns);

/// Makes the help of a program or a subcommand, for stdout.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace cria::tools
