// `cria`: one program, one command per file. Exit codes: 0, 1 (bad data or a failed run), 2 (wrong
// usage), or 128 + a signal as in shells. The signals are 129 (the terminal is gone), 130 (Ctrl-C),
// 143 (SIGTERM) and 141 (stdout was closed).
#include <algorithm>
#include <new>
#include <string>

#include "engine/execute/machine.h"
#include "model/error.h"
#include "tools/cli/command_line.h"
#include "tools/cli/settings.h"
#include "tools/commands/commands.h"
#include "tools/ranks/process_ranks.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

int fail(std::string_view message, int code) {
  print_error(message);
  return code;
}

/// Prints a usage error and where to read on, unless the message says that.
int fail_usage(const Command* command, std::string message) {
  if (command != nullptr && message.find("cria ") == std::string::npos) {
    const bool names_more = std::ranges::any_of(command->flags, [&](const Flag& flag) {
      return !is_in_short_help(*command, flag) &&
             message.find(flag.shown_name()) != std::string::npos;
    });
    const std::string hint = "see cria " + command->name + (names_more ? " --help-all" : " --help");
    message += message.ends_with(')') ? "; " + hint : " (" + hint + ")";
  }
  return fail(message, 2);
}

int show(const std::string& text) {
  write_stdout(text);
  return 0;
}

/// Gives the command what the environment, the configuration file and --tune --remember say.
CommandSettings add_settings(const Program& program, Command& command, std::string& note) {
  const auto has_setting = [](const Flag& flag) { return !flag.setting_name().empty(); };
  if (std::ranges::none_of(command.flags, has_setting)) return {};
  note_other_variables(program, command);
  const ConfigFile file = ConfigFile::read(program, ConfigFile::default_path());
  CommandSettings settings = settings_for(program, command, file);
  if (const TunedOptions tuned = add_tuned_settings(settings, command); !tuned.empty())
    note = "tuned for this model and machine: " + typed_options(tuned) +
           " (--no-tuned turns this off)";
  apply_settings(command, settings);
  note_unused_settings(command, file);
  return settings;
}

int parse_and_run(Program& program, const Words& typed) {
  Command* command = nullptr;
  CommandSettings settings;
  try {
    if (!typed.empty()) command = program.find(typed.front());  // for errors
    Command* const named = read_arguments(program, typed);
    if (named == nullptr)
      return show(typed.front() == "-h" || typed.front() == "--help" ? help_text(program)
                                                                     : version_text() + "\n");
    command = named;
    const bool all = command->given("--help-all");
    if (all || command->given("--help")) return show(help_text(*command, all));
    std::string note;
    settings = add_settings(program, *command, note);
    set_values(*command);
    if (!note.empty()) print_note(note);
    return command->run();
  } catch (const UsageError& error) {
    return fail_usage(command, with_source(error, settings));
  }
}

/// f's exit code, or that of what it throws.
template <class F>
int exit_code(F&& f) {
  try {
    return f();
  } catch (const Interrupted&) {
    return interrupted_exit();
  } catch (const OutputClosed&) {
    return kOutputClosedExit;
  } catch (const UnknownInstructionSet& error) {
    return fail(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

int run(int argc, char** argv) {
  Program program;
  add_commands(program);
  const Words typed(argv + std::min(argc, 1), argv + argc);
  const int code = exit_code([&] {
    return run_among_ranks(program_version(), [&] {
      return exit_code([&] { return parse_and_run(program, typed); });
    });
  });
  const int flushed =
      exit_code([] { return flush_stdout(), 0; });  // also what was written before an error
  return code != 0 ? code : flushed;
}

}  // namespace
}  // namespace cria::tools

int main(int argc, char** argv) {
  cria::tools::prepare_process();
  return cria::tools::run(argc, argv);
}
