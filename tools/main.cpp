// `cria`: one program, one subcommand per file. Exit codes: 0, 1 (bad data or a failed run), 2 (wrong usage),
// 130 (Ctrl-C).
#include <iostream>
#include <new>

#include "model/error.h"
#include "tools/commands.h"
#include "tools/interrupt.h"

namespace cria::tools {
namespace {

constexpr void (*kCommands[])(CLI::App&) = {
    add_chat,    add_run,   add_tokenize, add_template, add_perplexity, add_quantize,
    add_imatrix, add_split, add_merge,    add_logits,   add_dequant,    add_inspect,
    add_bench,   add_sweep, add_convert,  add_export,   add_completion, add_man};

int fail(std::string_view message, int code) {
  std::cout.flush();
  std::cerr << "cria: error: " << message << '\n';
  return code;
}

/// What was wrong on the command line, and where to read how it is done right.
int fail_usage(const CLI::App& app, const CLI::ParseError& error) {
  const auto used = app.get_subcommands();
  const std::string command = used.empty() ? "cria" : "cria " + used.front()->get_name();
  return fail(std::string(error.what()) + " (see " + command + " --help)", 2);
}

int run(int argc, char** argv) {
  CLI::App app("Runs LLaMA-family language models in GGUF files on ordinary CPUs.", "cria");
  app.set_version_flag("--version", "cria " CRIA_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Try `cria chat`; `cria SUBCOMMAND --help` tells more. Without -m the bundled demo model is used.");
  for (const auto add : kCommands) add(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::RuntimeError& stop) {  // a subcommand's own exit code
    return stop.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return fail_usage(app, error);
  } catch (const Interrupted&) {
    return kInterruptedExit;
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
  return 0;
}

}  // namespace
}  // namespace cria::tools

int main(int argc, char** argv) { return cria::tools::run(argc, argv); }
