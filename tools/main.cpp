// `cria`: one program, one subcommand per file. Exit codes: 0, 1 (bad data or a failed run), 2 (wrong usage),
// and as shells have it 128 + a signal: 130 (Ctrl-C), 143 (SIGTERM), 141 (nobody reads stdout any more).
#include <iostream>
#include <new>
#include <sstream>

#include "model/error.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/process.h"
#include "tools/standard_output.h"

namespace cria::tools {
namespace {

int fail(std::string_view message, int code) {
  std::cerr << "cria: error: " << message << '\n';
  return code;
}

/// What was wrong on the command line, and where to read how it is done right.
int fail_usage(const CLI::App& app, const CLI::ParseError& error) {
  const auto used = app.get_subcommands();
  const std::string command = used.empty() ? "cria" : "cria " + used.front()->get_name();
  return fail(std::string(error.what()) + " (see " + command + " --help)", 2);
}

/// --help and --version; their text goes the way of every answer.
int show(const CLI::App& app, const CLI::Success& wanted) {
  std::ostringstream out;
  const int code = app.exit(wanted, out, out);
  write_stdout(out.str());
  return code;
}

int parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {
    return show(app, wanted);
  } catch (const CLI::RuntimeError& stop) {  // a subcommand's own exit code
    return stop.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return fail_usage(app, error);
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
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Runs LLaMA-family language models in GGUF files on ordinary CPUs.", "cria");
  add_commands(app);
  const int code = exit_code([&] { return parse_and_run(app, argc, argv); });
  const int flushed = exit_code([] { return flush_stdout(), 0; });  // also what was said before an error
  return code != 0 ? code : flushed;
}

}  // namespace
}  // namespace cria::tools

int main(int argc, char** argv) {
  cria::tools::prepare_process();
  return cria::tools::run(argc, argv);
}
