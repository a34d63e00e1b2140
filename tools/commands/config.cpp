// `cria config`: the values of options that are not typed, and their sources.
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "tools/cli/command_line.h"
#include "tools/cli/settings.h"
#include "tools/commands/commands.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct Row {
  std::string command, option, value, source;
};

struct ConfigOptions {
  std::string command;
  bool json = false;
};

/// The settings of a command; with `all` also the defaults of flags that nothing sets.
void add_rows(std::vector<Row>& rows, const Program& program, const Command& command,
              const ConfigFile& file, bool all) {
  CommandSettings settings = settings_for(program, command, file);
  add_tuned_settings(settings, command);
  for (const Flag& flag : command.flags) {
    const std::string name = flag.setting_name();
    if (name.empty()) continue;
    if (const auto found = settings.find(name); found != settings.end())
      rows.push_back({command.name, name,
                      name == "api-key" ? "(not shown)" : joined(found->second.values, " "),
                      found->second.source});
    else if (all)
      rows.push_back({command.name, name, flag.target.default_text, "default"});
  }
}

std::string rows_json(const std::vector<Row>& rows, const ConfigFile& file) {
  auto list = Json::array();
  for (const Row& row : rows)
    list.push_back({{"command", row.command},
                    {"option", row.option},
                    {"value", row.value},
                    {"source", row.source}});
  return json_text({{"file", file.path()}, {"found", file.found()}, {"settings", list}});
}

std::string rows_text(const std::vector<Row>& rows) {
  Table table({"command", "option", "value", "from"});
  for (const Row& row : rows)
    table.add({row.command, "--" + row.option, without_controls(row.value), row.source});
  return table.text(stdout);
}

int run(const Program& program, const ConfigOptions& options) {
  const ConfigFile file = ConfigFile::read(program, ConfigFile::default_path());
  std::vector<Row> rows;
  const Words names = program.command_names();
  for (const Command& command : program.commands)
    if (options.command.empty() || options.command == command.name)
      add_rows(rows, program, command, file, !options.command.empty());
  if (std::ranges::find(names, options.command) == names.end() && !options.command.empty())
    throw UsageError(unknown_command(program, options.command));
  if (options.json) {
    write_stdout(rows_json(rows, file));
  } else {
    write_text((file.found() ? "read: " : "does not exist: ") + file.path() + "\n");
    if (rows.empty())
      write_text("Nothing is set: every option has its default.\n");
    else
      write_stdout(rows_text(rows));
  }
  return 0;
}

}  // namespace

void add_config(Program& program) {
  Command& command =
      program.add("config", "Show which options the configuration file and the environment set");
  auto options = std::make_shared<ConfigOptions>();
  command.add({
      {"COMMAND", "", "show all options of this command, also those with their default",
       into::text(options->command)},
      {"--json", "", "an object: file, found, settings", into::flag(options->json)},
  });
  command.notes =
      "The first source with a value for an option counts:\n"
      "1. the command line.\n"
      "2. the preset that --preset names.\n"
      "3. the environment: CRIA_TOP_K is --top-k.\n"
      "4. the configuration file: $CRIA_CONFIG, else $XDG_CONFIG_HOME/cria/config.toml, else "
      "~/.config/cria/config.toml.\n"
      "5. what cria bench --tune --remember has found for the model.\n\n"
      "A key of the configuration file is an option's long name. At the top it applies to all "
      "commands that "
      "have the option, in a section [run] to cria run, and so on. A section [preset.NAME] is a "
      "preset: "
      "sampling options and a system message. preset = \"NAME\" is allowed in sections of "
      "commands, not at "
      "the top.\n\n"
      "Example of a configuration file:\n"
      "  threads = 4\n"
      "  [chat]\n"
      "  preset = \"teacher\"\n"
      "  [preset.teacher]\n"
      "  system = \"You are a kind teacher.\"\n"
      "  temp = 0.5\n\n"
      "Examples:\n"
      "  cria config\n"
      "  CRIA_TEMP=0 cria config run";
  command.run = [&program, options] { return run(program, *options); };
}

}  // namespace cria::tools
