// `cria perplexity`: how well a model predicts a text.
#include "engine/perplexity.h"

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/common.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

struct PerplexityCommand {
  ModelOptions model;
  PerplexityOptions windows;
  std::string text;
  bool json = false;
};

/// Evaluates all windows, with progress.
class Measurement {
 public:
  Measurement(Perplexity& perplexity, const PerplexityOptions& options)
      : perplexity_(perplexity),
        per_window_(options.window - 1),
        progress_("perplexity", "tokens", perplexity.windows() * per_window_) {}

  void run() {
    const std::atomic<bool>& interrupted = catch_interrupts();
    const auto on_batch = [&](std::size_t evaluated) {
      progress_.update(perplexity_.done() * per_window_ + evaluated, running_);
      current_ = evaluated;
      return !interrupted;
    };
    const auto start = std::chrono::steady_clock::now();
    while (perplexity_.next(on_batch)) {
      evaluated_ += current_;
      const PerplexityResult now = perplexity_.result();
      running_ = fixed(now.ppl, 4) + " ± " + fixed(now.ppl_stderr, 4);
    }
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (interrupted) throw Interrupted();
  }
  [[nodiscard]] double tokens_per_second() const { return static_cast<double>(evaluated_) / seconds_; }

 private:
  Perplexity& perplexity_;
  std::size_t per_window_;
  Progress progress_;
  std::string running_;
  std::uint64_t evaluated_ = 0;
  std::size_t current_ = 0;
  double seconds_ = 0;
};

void report(const PerplexityCommand& options, const PerplexityResult& result, double tokens_per_second) {
  if (options.json) {
    const nlohmann::ordered_json object = {{"ppl", result.ppl},
                                           {"ppl_stderr", result.ppl_stderr},
                                           {"tokens", result.tokens},
                                           {"chunks", result.windows},
                                           {"window", options.windows.window},
                                           {"stride", options.windows.stride},
                                           {"tokens_per_second", tokens_per_second}};
    write_stdout(object.dump() + "\n");
  } else {
    write_stdout("perplexity " + fixed(result.ppl, 4) + " ± " + fixed(result.ppl_stderr, 4) + " (" +
                 std::to_string(result.windows) + " windows of " + std::to_string(options.windows.window) +
                 " tokens, " + std::to_string(result.tokens) + " scored, " + fixed(tokens_per_second, 1) +
                 " tokens/s)\n");
  }
  flush_stdout();
}

int run(PerplexityCommand options) {
  options.windows.window = options.model.session.n_ctx;
  const auto model = load_model(options.model);
  const std::vector<TokenId> text = perplexity_tokens(*model, read_file(options.text));
  const TextWindows windows(text.size(), options.windows);  // what cannot be is said before memory is taken
  if (options.windows.window > model->config().n_ctx_train)
    std::cerr << "cria: warning: windows of " << options.windows.window
              << " tokens, but the model was trained for " << model->config().n_ctx_train << '\n';
  const auto session = open_session(*model, options.model);
  if (options.model.verbose)
    std::cerr << "text: " << text.size() << " tokens, " << windows.size() << " windows\n";

  Perplexity perplexity(*session, text, options.windows);
  double tokens_per_second = 0;
  {
    Measurement measurement(perplexity, options.windows);
    measurement.run();
    tokens_per_second = measurement.tokens_per_second();
  }
  report(options, perplexity.result(), tokens_per_second);
  print_profile(*session, options.model);
  return 0;
}

}  // namespace

void add_perplexity(CLI::App& app) {
  CLI::App* command = app.add_subcommand("perplexity", "How well a model predicts a text");
  auto options = std::make_shared<PerplexityCommand>();
  command->add_option("-f,--file", options->text, "the text, taken as it is (-: stdin, the default)")
      ->type_name("FILE")
      ->default_str("-");
  options->text = "-";
  add_model_options(*command, options->model);
  options->model.session.n_ctx = 512;
  command->get_option("--ctx")->description("tokens of a window")->default_str("512");
  command
      ->add_option("--stride", options->windows.stride,
                   "windows begin so many tokens after one another, and score what none before them held "
                   "(default: windows side by side that score their second half)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  command->add_option("--chunks", options->windows.max_windows, "stop after so many windows (default: all)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  command->add_flag("--json", options->json,
                    "an object with ppl, ppl_stderr, tokens (scored), chunks, tokens_per_second (evaluated)");
  command->footer(
      "Examples:\n"
      "  cria perplexity -m model.gguf -f wiki.test.raw\n"
      "  cria perplexity -m model.gguf -f wiki.test.raw -c 1024 --stride 512 --chunks 100 --json");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
