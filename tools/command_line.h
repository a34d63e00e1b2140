// What the command line accepts, read back from CLI11's declarations: the one source of completions and man
// page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cria::tools {

struct OptionDescription {
  std::vector<std::string> names;    ///< "-m", "--model"; a positional has none
  std::string value;                 ///< "FILE", "N"; "" for a flag
  std::vector<std::string> choices;  ///< the values it takes, where they are few
  std::string help, default_value;

  [[nodiscard]] std::string joined_names() const;  ///< "-m, --model"
};

struct CommandDescription {
  std::string name, help, footer;  ///< footer: notes and examples
  std::vector<OptionDescription> options;
};

/// The program's subcommands.
std::vector<CommandDescription> describe_commands(const CLI::App& app);

}  // namespace cria::tools
