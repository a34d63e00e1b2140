// Help texts that fit the terminal.
#pragma once
#include <cstdio>
#include <string>

#include "tools/cli/flag.h"

namespace cria::tools {

/// The columns of the stream's terminal, at most 110; 80 without a terminal.
std::size_t help_columns(std::FILE* stream);

/// "  run   Answer one prompt …", an entry for each command, in lines of at most `columns`.
std::string command_list(const Program& program, std::size_t columns);

/// Notes and examples: paragraphs are broken at words, and so are commands (lines that begin with
/// blanks), so that a shell still reads them as one.
std::string footer_text(const std::string& footer, std::size_t columns);

/// The output of --help.
std::string help_text(const Program& program);
/// Help of a command. A command with many flags shows only the common ones, unless `all` is set.
std::string help_text(const Command& command, bool all);

}  // namespace cria::tools
