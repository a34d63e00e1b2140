// Values of flags that are not typed: presets, the environment, a configuration file, and the
// options that `cria bench --tune --remember` has found best for a model on this machine.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tools/cli/flag.h"

namespace cria::tools {

/// A value and where it came from.
struct Setting {
  std::vector<std::string> values;  ///< more than one for options that take a list
  std::string source;  ///< "CRIA_TEMP", "preset exact", "/home/u/.config/cria/config.toml"
};

/// Settings of one command by the flags' long names without leading hyphens.
using CommandSettings = std::map<std::string, Setting>;

/// A configuration file in TOML: keys are the long names of options. Keys at the top apply to every
/// command that has the option, keys in [NAME] to that command; [preset.NAME] is a preset.
class ConfigFile {
 public:
  /// $CRIA_CONFIG, else $XDG_CONFIG_HOME/cria/config.toml, else ~/.config/cria/config.toml.
  static std::string default_path();
  /// Empty if the file does not exist, unless $CRIA_CONFIG names it. It may be a pipe. Throws
  /// UsageError for a key that no command has, and above 64 KiB.
  static ConfigFile read(const Program& program, const std::string& path);

  [[nodiscard]] bool found() const { return found_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  using Values = std::map<std::string, std::vector<std::string>>;
  /// "" for the top, "run", "preset.exact"; null for an unknown section.
  [[nodiscard]] const Values* section(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> presets() const;

 private:
  std::string path_;
  bool found_ = false;
  std::map<std::string, Values> sections_;
};

/// CRIA_ and the flag's long name in capitals, hyphens as underscores: "CRIA_TOP_K".
std::string environment_name(const std::string& name);

/// Prints a note for each variable that begins with CRIA_ but names no option. `cria serve` and
/// `cria config` also note variables of other programs.
void note_other_variables(const Program& program, const Command& command);

/// Presets that need no configuration file.
std::vector<std::string> builtin_preset_names();

/// Adds --preset to every command that samples.
void add_preset_flags(Program& program);

/// The settings of flags that are not given, that no given flag excludes, and whose needs are met.
/// A preset counts more than the environment, the environment more than the file, its section more
/// than its top. Throws UsageError for an unknown preset, and for a switch's value that is neither
/// true nor false. Values for all commands are skipped if another command's flag of that name takes
/// a value.
CommandSettings settings_for(const Program& program, const Command& command,
                             const ConfigFile& file);

/// True if a given flag of the command excludes this one.
bool is_excluded(const Command& command, const Flag& flag);

/// Notes texts of the preset, the environment and the file that are not used: another flag excludes
/// them, or the command takes no system message.
void note_unused_settings(const Command& command, const ConfigFile& file);

/// Gives the settings to the command as if they had been typed.
void apply_settings(Command& command, const CommandSettings& settings);

/// The message of an error, with the source of the value unless it was typed.
std::string with_source(const UsageError& error, const CommandSettings& settings);

/// Values of options by their long names: {"threads", "4"}, {"no-mmap", "true"}. Empty: the
/// defaults are best.
using TunedOptions = std::map<std::string, std::string>;

/// The flags to type: "--threads 4 --no-mmap".
std::string typed_options(const TunedOptions& options);

/// $XDG_STATE_HOME/cria/tuned.json, else ~/.local/state/cria/tuned.json; "" without a home
/// directory.
std::string tuned_path();

/// The remembered options of a model on this machine, by the file's name and size. Empty if they
/// cannot be read; warns about a file in another format.
TunedOptions remembered_options(const std::string& model);

/// Remembers it in place of what was there. Throws Error where that cannot be.
void remember_options(const std::string& model, const TunedOptions& options);

/// Adds what is remembered for the command's model to its settings, unless they or the command line
/// say otherwise, or --no-tuned is given; nothing with several ranks. Returns what was added.
TunedOptions add_tuned_settings(CommandSettings& settings, const Command& command);

}  // namespace cria::tools
