// `cria`: one program, one subcommand per file. Exit codes: 0, 1 (bad data or a failed run), 2
// (wrong usage), and as shells have it 128 + a signal: 129 (the terminal is gone), 130 (Ctrl-C),
// 143 (SIGTERM), 141 (nobody reads stdout any more).
#include <algorithm>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "engine/execute/machine.h"
#include "model/error.h"
#include "tools/commands/commands.h"
#include "tools/options/arguments.h"
#include "tools/options/settings.h"
#include "tools/options/usage_error.h"
#include "tools/ranks/process_ranks.h"
#include "tools/report/tuned.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/process.h"
#include "tools/terminal/standard_output.h"

namespace cria::tools {
namespace {

int fail(std::string_view message, int code) {
  print_error(message);
  return code;
}

/// What was wrong on the command line, and where to read how it is done right, unless the message
/// says that.
int fail_usage(const CLI::App* command, std::string message) {
  if (command != nullptr && message.find("cria ") == std::string::npos) {
    const std::string hint = "see cria " + command->get_name() + " --help";
    message += message.ends_with(')') ? "; " + hint : " (" + hint + ")";
  }
  return fail(message, 2);
}

/// --help and --version; their text goes the way of every answer.
int show(const CLI::App& app, const CLI::Success& wanted) {
  std::ostringstream out;
  const int code = app.exit(wanted, out, out);
  write_stdout(out.str());
  return code;
}

/// The value typed for an option, "" for none.
std::string typed_value(const std::vector<std::string>& words, const std::string& option) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
  }
  return "";
}

/// What the environment and the configuration file say, and what was found best for the model,
/// given to the subcommand beside what was typed.
CommandSettings add_settings(CLI::App& app, const Arguments& arguments) {
  CLI::App& command = *arguments.command;
  if (arguments.given.contains(command.get_help_ptr()) || !takes_settings(command)) return {};
  const ConfigFile file = ConfigFile::read(app, ConfigFile::default_path());
  CommandSettings settings =
      settings_for(command, arguments.given, typed_value(arguments.words, "--preset"), file);
  const TunedOptions tuned =
      add_tuned_settings(settings, command, arguments.given, arguments.words);
  if (!tuned.empty())
    app.parse_complete_callback([text = typed_options(tuned)] {
      print_note("tuned for this model and machine: " + text + " (--no-tuned turns this off)");
    });
  apply_settings(command, settings);
  return settings;
}

int parse_and_run(CLI::App& app, int argc, char** argv) {
  Arguments arguments;
  CommandSettings settings;
  try {
    arguments =
        read_arguments(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    if (arguments.command != nullptr) settings = add_settings(app, arguments);
    app.parse(std::vector<std::string>(arguments.words.rbegin(), arguments.words.rend()));
  } catch (const CLI::Success& wanted) {
    return show(app, wanted);
  } catch (const CLI::RuntimeError& stop) {  // a subcommand's own exit code
    return stop.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return fail_usage(arguments.command,
                      with_source(usage_text(error, arguments.command), settings));
  }
  return 0;
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
  CLI::App app("Runs LLaMA-family language models in GGUF files on ordinary CPUs.", "cria");
  add_commands(app);
  const int code = exit_code([&] {
    return run_among_ranks(
        [&] { return exit_code([&] { return parse_and_run(app, argc, argv); }); });
  });
  const int flushed =
      exit_code([] { return flush_stdout(), 0; });  // also what was said before an error
  return code != 0 ? code : flushed;
}

}  // namespace
}  // namespace cria::tools

int main(int argc, char** argv) {
  cria::tools::prepare_process();
  return cria::tools::run(argc, argv);
}
