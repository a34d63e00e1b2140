// `cria perplexity`: how well a model predicts a text, and how far its predictions are from
// another's.
#include "engine/evaluate/perplexity.h"

#include <chrono>
#include <filesystem>

#include "engine/fingerprint.h"
#include "model/file/binary_file.h"
#include "model/gguf/writer.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/input.h"
#include "tools/options/model.h"
#include "tools/options/settings.h"
#include "tools/report/choices.h"
#include "tools/report/generation.h"
#include "tools/report/perplexity_report.h"
#include "tools/report/resumption.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct PerplexityCommand {
  ModelOptions model;
  PerplexityOptions windows;
  std::optional<std::string> text;
  std::optional<std::uint32_t> stride;
  bool json = false;
  struct {
    bool window, stride, chunks;
  } typed{};  ///< which of these are on the command line
  std::string save_logits, compare, base, state, choices;
};

/// Evaluates all windows, with progress; keeps the state file up to date.
class Measurement {
 public:
  Measurement(Perplexity& perplexity, const PerplexityOptions& options, std::string state)
      : perplexity_(perplexity), per_window_(options.window - 1), state_(std::move(state)) {}

  void run() {
    const std::atomic<bool>& interrupted = catch_interrupts();
    if (!state_.empty() && std::filesystem::exists(state_)) perplexity_.load(state_);
    const std::size_t before = perplexity_.done();
    if (before > 0) print_line(resumed_text(state_, before, perplexity_.windows()));
    Progress progress("perplexity", "tokens", (perplexity_.windows() - before) * per_window_);
    std::string running = running_value();
    const auto on_batch = [&](std::size_t evaluated) {
      current_ = evaluated;
      progress.update((perplexity_.done() - before) * per_window_ + evaluated, running);
      return !interrupted;
    };
    while (perplexity_.next(on_batch)) {
      evaluated_ += current_;
      running = running_value();
      if (!state_.empty() && Clock::now() - saved_ > std::chrono::seconds(2)) save();
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - start_).count();
    if (!state_.empty()) save();
    if (!interrupted) return;
    progress.wipe();
    const std::string value = running_value();
    print_line((value.empty() ? "" : "perplexity " + value + " so far; ") +
               stopped_text(state_, perplexity_.done(), perplexity_.windows()));
    throw Interrupted();
  }
  [[nodiscard]] double tokens_per_second() const {
    return evaluated_ == 0 ? 0 : static_cast<double>(evaluated_) / seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::string running_value() const {
    const PerplexityResult now = perplexity_.result_so_far();
    return now.windows == 0 ? "" : fixed(now.ppl, 4) + " ± " + fixed(now.ppl_stderr, 4);
  }
  void save() {
    perplexity_.save(state_);
    saved_ = Clock::now();
  }

  Perplexity& perplexity_;
  std::size_t per_window_;
  std::string state_;
  Clock::time_point start_ = Clock::now(), saved_ = start_;
  std::uint64_t evaluated_ = 0;
  std::size_t current_ = 0;
  double seconds_ = 0;
};

/// Windows and text are those of the file compared with. What is typed otherwise is refused;
/// settings are for all uses, and give way.
void adopt(PerplexityCommand& options, const LogProbsReader& reader) {
  const PerplexityOptions& theirs = reader.options();
  const auto require = [&](bool typed, const char* option, std::uint64_t expected,
                           std::uint64_t got) {
    if (typed && expected != got)
      throw Error(options.compare, std::string("made with another ") + option + ": expected " +
                                       std::to_string(got) + ", got " + std::to_string(expected));
  };
  require(options.typed.window, "window (-c)", theirs.window, options.windows.window);
  require(options.typed.stride, "--stride", theirs.stride, options.windows.stride);
  if (options.typed.chunks && options.windows.max_windows > theirs.max_windows)
    throw Error(options.compare, "not so many windows: expected at most " +
                                     std::to_string(theirs.max_windows) + ", got " +
                                     std::to_string(options.windows.max_windows));
  const std::uint64_t wanted = options.windows.max_windows;
  options.windows = theirs;
  if (wanted != 0) options.windows.max_windows = std::min(wanted, theirs.max_windows);
  options.model.session.n_ctx = theirs.window;
}

/// A second model and its session.
struct Base {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Session> session;
  std::unique_ptr<SessionBase> logits;

  Base(const PerplexityCommand& options, const Model& compared) {
    ModelOptions mine = options.model;
    mine.model = options.base;
    model = load_model(mine);
    if (model->config().n_vocab != compared.config().n_vocab ||
        vocabulary_fingerprint(model->vocabulary()) !=
            vocabulary_fingerprint(compared.vocabulary()))
      throw Error(options.base,
                  "cannot be the base: its vocabulary is not that of " + compared.file().path());
    session = open_session(*model, mine);
    logits = std::make_unique<SessionBase>(*session);
  }
};

void warn_of_long_windows(const PerplexityCommand& options, const Model& model) {
  if (options.windows.window > model.config().n_ctx_train)
    print_warning("windows of " + counted(options.windows.window, "token") +
                  ", but the model was trained for " + std::to_string(model.config().n_ctx_train));
}

void measure(PerplexityCommand& options, const Model& model) {
  if (!options.state.empty()) require_writable(options.state);
  std::optional<LogProbsReader> reader;
  if (!options.compare.empty()) {
    reader.emplace(options.compare, model);
    adopt(options, *reader);
  }
  std::vector<TokenId> text;
  if (!reader || options.text) {
    text = perplexity_tokens(model, read_file(options.text.value_or("-")));
    if (reader && !std::ranges::equal(reader->text(), std::span(text).first(std::min(
                                                          text.size(), reader->text().size()))))
      throw Error(options.compare, "made with another text than " + *options.text);
  }
  if (reader) text = reader->text();
  const TextWindows windows(text.size(),
                            options.windows);  // what cannot be is said before memory is taken
  warn_of_long_windows(options, model);
  const auto session = open_session(model, options.model);
  std::optional<Base> base;
  if (!options.base.empty()) base.emplace(options, model);
  std::optional<LogProbsWriter> writer;
  if (!options.save_logits.empty()) {
    require_other_file(model.file(), options.save_logits);
    require_other_file(options.text.value_or("-"), options.save_logits);
    writer.emplace(options.save_logits, model, text, options.windows);
  }
  if (options.model.verbose)
    print_line("text: " + counted(text.size(), "token") + ", " + counted(windows.size(), "window"));

  Perplexity perplexity(*session, text, options.windows);
  if (reader) perplexity.compare_with(*reader);
  if (base) perplexity.compare_with(*base->logits);
  if (writer) perplexity.write_to(*writer);
  Measurement measurement(perplexity, options.windows, options.state);
  measurement.run();
  if (writer) writer->finish();
  const auto render = options.json ? perplexity_json : perplexity_text;
  write_text(render(perplexity.result(), options.windows, measurement.tokens_per_second()));
  flush_stdout();
  print_profile(session->profile(), options.model);
}

void answer_choices(const PerplexityCommand& options, const Model& model,
                    const std::vector<ChoiceQuestion>& questions) {
  constexpr std::uint32_t kAtOnce = 4, kPositions = 2048;
  EngineOptions wanted = engine_options(options.model);
  wanted.sequences = kAtOnce;
  wanted.positions = std::max<std::uint64_t>(wanted.n_ctx, kPositions);
  const auto engine = open_engine(model, options.model, wanted);
  run_choices(*engine, questions, options.json);
  print_profile(engine->profile(), options.model);
}

int run(PerplexityCommand options) {
  (void)catch_interrupts();  // before files are begun, which a signal would leave
  options.windows.window = options.model.session.n_ctx;
  options.windows.stride = options.stride.value_or(0);
  std::vector<ChoiceQuestion> questions;
  if (!options.choices.empty()) questions = read_choices(options.choices);
  const auto model = load_model(options.model);
  if (questions.empty()) {
    measure(options, *model);
  } else {
    answer_choices(options, *model, questions);
  }
  return 0;
}

void add_comparisons(CLI::App& command, PerplexityCommand& options) {
  CLI::Option* save =
      command.add_option("--save-logits", options.save_logits,
                         "write the model's log-probabilities to this file, for --compare");
  CLI::Option* compare = command.add_option(
      "--compare", options.compare,
      "compare with the model whose log-probabilities --save-logits wrote to this file: "
      "KL divergence; text and windows are those of the file");
  CLI::Option* base = command.add_option(
      "--base", options.base, "compare with this model (GGUF): KL divergence; both are evaluated");
  CLI::Option* state =
      command.add_option("--state", options.state,
                         "save progress here; run again with the same arguments to continue");
  CLI::Option* choices =
      command.add_option("--choices", options.choices,
                         "multiple-choice questions instead of a text: one JSON object "
                         "per line, with question, choices, answer");
  for (CLI::Option* option : {save, compare, base, state, choices}) option->type_name("FILE");
  save->excludes(compare)->excludes(base)->excludes(state);
  compare->excludes(base);
  for (CLI::Option* option : {save, compare, base, state, command.get_option("--file"),
                              command.get_option("--stride"), command.get_option("--chunks")})
    choices->excludes(option);
}

}  // namespace

void add_perplexity(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "perplexity",
      "Measure how well a model predicts a text, and how far it is from another model");
  auto options = std::make_shared<PerplexityCommand>();
  command->add_option("-f,--file", options->text, "the text (-: stdin, the default)")
      ->type_name("FILE");
  add_model_options(*command, options->model);
  add_window_option(*command, options->model);
  command
      ->add_option(
          "--stride", options->stride,
          "start a window every N tokens; each scores only tokens that no earlier window contained "
          "(default: windows do not overlap, and each scores its second half)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  command
      ->add_option("--chunks", options->windows.max_windows, "stop after N windows (default: all)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  add_comparisons(*command, *options);
  command->add_flag(
      "--json", options->json,
      "an object: ppl, ppl_stderr, tokens (scored), chunks, tokens_per_second (evaluated) …");
  command->footer(
      "Examples:\n"
      "  cria perplexity -m model.gguf -f wiki.test.raw\n"
      "  cria perplexity -m model.gguf -f wiki.test.raw -c 1024 --stride 512 --json\n"
      "  cria perplexity -m model-Q4_K.gguf --base model-F16.gguf -f wiki.test.raw --state "
      "q4.state\n"
      "  cria perplexity -m model-F16.gguf -f wiki.test.raw --save-logits f16.logits\n"
      "  cria perplexity -m model-Q4_K.gguf --compare f16.logits\n"
      "  cria perplexity -m model.gguf --choices hellaswag.jsonl");
  on_run(command, [command, options] {
    const auto typed = [&](const char* name) { return is_typed(*command->get_option(name)); };
    options->typed = {typed("--window"), typed("--stride"), typed("--chunks")};
    return run(*options);
  });
}

}  // namespace cria::tools
