// Values of options that are not on the command line: presets, the environment, a configuration
// file.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cria::tools {

/// A value and where it came from.
struct Setting {
  std::vector<std::string> values;  ///< more than one for options that take a list
  std::string source;  ///< "CRIA_TEMP", "preset exact", "/home/u/.config/cria/config.toml"
};

/// Option's long name without hyphens in front to its setting, for one subcommand.
using CommandSettings = std::map<std::string, Setting>;

/// A configuration file in TOML: keys are the long names of options. Those at its top are for every
/// subcommand that has the option, those of a section [NAME] for that subcommand, those of
/// [preset.NAME] a preset.
class ConfigFile {
 public:
  /// $CRIA_CONFIG, else $XDG_CONFIG_HOME/cria/config.toml, else ~/.config/cria/config.toml.
  static std::string default_path();
  /// Empty where there is no such file, unless $CRIA_CONFIG names it. It may be a pipe. Throws a
  /// usage error for a key that no subcommand has, and for more than 64 KiB.
  static ConfigFile read(const CLI::App& app, const std::string& path);

  [[nodiscard]] bool found() const { return found_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  using Values = std::map<std::string, std::vector<std::string>>;
  /// "" for the top, "run", "preset.exact"; null where there is no such section.
  [[nodiscard]] const Values* section(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> presets() const;

 private:
  std::string path_;
  bool found_ = false;
  std::map<std::string, Values> sections_;
};

/// CRIA_ and the option's long name in capitals, hyphens as underscores: "CRIA_TOP_K".
std::string environment_name(const std::string& option);

/// Whether there is an option that a variable or the file could set.
bool takes_settings(const CLI::App& command);

/// Presets that need no configuration file.
std::vector<std::string> builtin_preset_names();

/// Adds --preset to every subcommand that draws answers.
void add_preset_options(CLI::App& app);

/// What the subcommand gets for options that are not in `given`, nor exclude one that is, nor need
/// one that is not. A preset is worth more than the environment, the environment more than the
/// file, its section more than its top. preset: by its name, "": as environment and file say.
/// Throws a usage error for a preset that there is not, and for a flag's value that is neither true
/// nor false, unless it is for all subcommands and the name takes a value in another.
CommandSettings settings_for(const CLI::App& command, const std::set<const CLI::Option*>& given,
                             const std::string& preset, const ConfigFile& file);

/// Gives the settings to the subcommand, as if they had been typed.
void apply_settings(CLI::App& command, const CommandSettings& settings);

/// Whether the option is on the command line. Only such a one is refused where it would not count:
/// settings are for all uses of a subcommand.
bool is_typed(const CLI::Option& option);

/// The message of a usage error, with the source of the value where it was not typed.
std::string with_source(const std::string& message, const CommandSettings& settings);

}  // namespace cria::tools
