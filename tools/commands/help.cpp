// `cria help [COMMAND]` and `cria version`: what --help and --version say, for those who ask in
// words.
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/command_line.h"
#include "tools/options/nearest.h"

namespace cria::tools {
namespace {

std::string help_text(const CLI::App& app, const std::string& name) {
  // app.help() would be that of the subcommand that runs: this one.
  if (name.empty())
    return app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
  if (const CLI::App* command = find_command(app, name); command != nullptr) return command->help();
  std::vector<std::string> names;
  for (const CommandDescription& command : describe_commands(app)) names.push_back(command.name);
  throw CLI::ValidationError("there is no command " + name + suggestion(name, names) +
                             " (cria help lists them)");
}

}  // namespace

void add_help(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Show what a command does and its options");
  auto name = std::make_shared<std::string>();
  command->add_option("COMMAND", *name, "the command (default: all, one line each)");
  command->footer("Example:\n  cria help run");
  on_run(command, [&app, name] {
    write_stdout(help_text(app, *name));
    flush_stdout();
    return 0;
  });
}

void add_version(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Print the program's version");
  command->footer("Example:\n  cria version");
  on_run(command, [] {
    write_stdout(version_text() + "\n");
    flush_stdout();
    return 0;
  });
}

}  // namespace cria::tools
