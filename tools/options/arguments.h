// The command line before CLI11 reads it: names of llama.cpp become ours, unknown names are told
// with the nearest there is.
#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

namespace cria::tools {

struct Arguments {
  CLI::App* command = nullptr;     ///< null: none is named
  std::vector<std::string> words;  ///< for CLI11, in the order typed
  std::set<const CLI::Option*>
      given;  ///< options of the command that are among them; all positionals, if one is
};

/// Throws a usage error for a command or an option that there is not, and for one of llama.cpp's
/// that does not apply here.
Arguments read_arguments(CLI::App& app, const std::vector<std::string>& typed);

}  // namespace cria::tools
