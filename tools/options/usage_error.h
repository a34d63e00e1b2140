// What was wrong on the command line, in the program's own words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cria::tools {

/// CLI11's error said with its subject, what is wrong and what was expected. command: what was
/// called, or null.
std::string usage_text(const CLI::ParseError& error, const CLI::App* command = nullptr);

}  // namespace cria::tools
