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
    if (option->get_positional() || option->get_lnames().empty() || option == command.get_help_ptr())
      continue;
    const std::string name = option->get_lnames().front();
    if (const auto found = settings.find(name); found != settings.end())
      rows.push_back({command.get_name(), name,
                      name == "api-key" ? "(not shown)" : CLI::detail::join(found->second.values, " "),
                      found->second.source});
    else if (all)
      rows.push_back({command.get_name(), name, option->get_default_str(), "default"});
  }
}

std::string rows_json(const std::vector<Row>& rows, const ConfigFile& file) {
  auto list = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    list.push_back(
        {{"command", row.command}, {"option", row.option}, {"value", row.value}, {"source", row.source}});
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
    throw CLI::ValidationError("there is no command " + options.command + suggestion(options.command, names));
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
      "config", "Show what options are set to by the configuration file and the environment");
  auto options = std::make_shared<ConfigOptions>();
  command->add_option("COMMAND", options->command, "all options of this one, defaults too");
  command->add_flag("--json", options->json, "an object: file, found, settings");
  command->footer(
      "An option that is not typed gets its value from the preset that --preset names, else from the "
      "environment (CRIA_TOP_K is --top-k), else from the configuration file: $CRIA_CONFIG, else "
      "$XDG_CONFIG_HOME/cria/config.toml, else ~/.config/cria/config.toml. There a key is an option's long "
      "name, for all commands that have it; "
      "those "
      "of a section [run] are for that command, those of [preset.NAME] a preset of sampling and system "
      "message. Beside those, preset = \"NAME\" stands in [run] or [chat], not at the top. "
      "What cria bench --tune --remember has found for a model counts least.\n"
      "Example of a file:\n"
      "  threads = 4\n"
      "  [chat]\n"
      "  preset = \"teacher\"\n"
      "  [preset.teacher]\n"
      "  system = \"You are a kind teacher.\"\n"
      "  temp = 0.5\n"
      "Examples:\n  cria config\n  CRIA_TEMP=0 cria config run");
  on_run(command, [&app, options] { return run(app, *options); });
}

}  // namespace cria::tools
