// What the command line accepts, read back from CLI11's declarations: the one source of help,
// completions and manual page.
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
  bool list = false;  ///< a positional that takes all words that are left

  [[nodiscard]] std::string joined_names() const;  ///< "-m, --model"
};

struct CommandDescription {
  std::string name, help, footer;  ///< footer: notes and examples
  std::vector<OptionDescription> options;
};

OptionDescription describe_option(const CLI::Option& option);

/// "cria 0.1.0 (commit 0123456789; runs on avx2, scalar; several machines by MPI)"
std::string version_text();
/// Version and commit: what two machines must agree in.
std::string program_version();

/// The subcommand of this name; null if there is none.
CLI::App* find_command(const CLI::App& app, const std::string& name);

/// The program's subcommands.
std::vector<CommandDescription> describe_commands(const CLI::App& app);

}  // namespace cria::tools
