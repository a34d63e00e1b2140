// `cria config`: what options are set to where they are not typed, and where that comes from.
#include <nlohmann/json.hpp>

#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/command_line.h"
#include "tools/options/nearest.h"
#include "tools/options/settings.h"
#include "tools/report/json.h"
#include "tools/report/table.h"
#include "tools/report/tuned.h"
#include "tools/terminal/messages.h"
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

/// What is set for a subcommand; with `all` also the defaults of options that nothing sets.
void add_rows(std::vector<Row>& rows, const CLI::App& command, const ConfigFile& file, bool all) {
  CommandSettings settings = settings_for(command, {}, "", file);
  add_tuned_settings(settings, command, {}, {});
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_lnames().empty() ||
        option == command.get_help_ptr())
      continue;
    const std::string name = option->get_lnames().front();
    if (const auto found = settings.find(name); found != settings.end())
      rows.push_back(
          {command.get_name(), name,
           name == "api-key" ? "(not shown)" : CLI::detail::join(found->second.values, " "),
           found->second.source});
    else if (all)
      rows.push_back({command.get_name(), name, option->get_default_str(), "default"});
  }
}

std::string rows_json(const std::vector<Row>& rows, const ConfigFile& file) {
  auto list = nlohmann::ordered_json::array();
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

int run(const CLI::App& app, const ConfigOptions& options) {
  const ConfigFile file = ConfigFile::read(app, ConfigFile::default_path());
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    if (options.command.empty() || options.command == command->get_name())
      add_rows(rows, *command, file, !options.command.empty());
  }
  if (std::ranges::find(names, options.command) == names.end() && !options.command.empty())
    throw CLI::ValidationError("there is no command " + options.command +
                               suggestion(options.command, names));
  if (options.json) {
    write_stdout(rows_json(rows, file));
  } else {
    write_text((file.found() ? "read: " : "not there: ") + file.path() + "\n");
    if (rows.empty())
      write_text("Nothing is set: every option has its default.\n");
    else
      write_stdout(rows_text(rows));
  }
  flush_stdout();
  return 0;
}

}  // namespace

void add_config(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "config", "Show which options the configuration file and the environment set");
  auto options = std::make_shared<ConfigOptions>();
  command->add_option("COMMAND", options->command,
                      "show all options of this command, also those with their default");
  command->add_flag("--json", options->json, "an object: file, found, settings");
  command->footer(
      "An option gets its value from the first of these that has one:\n"
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
      "  CRIA_TEMP=0 cria config run");
  on_run(command, [&app, options] { return run(app, *options); });
}

}  // namespace cria::tools
