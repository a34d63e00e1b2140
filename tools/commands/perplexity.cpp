#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/evaluate/perplexity.h"
#include "engine/model_parts.h"
#include "model/file/binary_file.h"
#include "model/gguf/writer.h"
#include "model/plural.h"
#include "tools/cli/settings.h"
#include "tools/commands/choices.h"
#include "tools/commands/commands.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/answer.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

std::string text(const Estimate& e, int decimals, double factor = 1) {
  return fixed(factor * e.value, decimals) + " ± " + fixed(factor * e.error, decimals);
}

std::string divergence_text(const DivergenceResult& d) {
  Table figures({"compared with the base", ""});
  figures.add({"perplexity of the base", text(d.base_ppl, 4)});
  figures.add({"ratio of perplexities", text(d.ratio, 5)});
  figures.add({"logarithm of the ratio", text(d.log_ratio, 5)});
  figures.add({"correlation of log p", fixed(100 * d.correlation, 2) + " %"});
  figures.add({"KL divergence", text(d.kld, 6)});
  figures.add({"same top token", text(d.same_top, 3, 100) + " %"});
  figures.add({"Δp, mean", text(d.delta_p, 3, 100) + " %"});
  figures.add({"Δp, root mean square", text(d.delta_p_rms, 3, 100) + " %"});
  Table shares({">quantile", ">KL divergence", ">Δp"});
  for (std::size_t i = 0; i < d.kld_quantiles.size(); ++i)
    shares.add({fixed(100 * d.kld_quantiles[i].share, 1) + " %", fixed(d.kld_quantiles[i].value, 6),
                fixed(100 * d.delta_p_quantiles[i].value, 3) + " %"});
  return "\n" + figures.text(stdout) + "\n" + shares.text(stdout);
}

Json quantile_list(const std::vector<Quantile>& quantiles) {
  Json list = Json::array();
  for (const Quantile& q : quantiles) list.push_back({q.share, q.value});
  return list;
}

void add(Json& object, const std::string& name, const Estimate& e) {
  object[name] = e.value;
  object[name + "_stderr"] = e.error;
}

}  // namespace

std::string perplexity_text(const PerplexityResult& result, const PerplexityOptions& options,
                            double tokens_per_second) {
  return "perplexity " + fixed(result.ppl, 4) + " ± " + fixed(result.ppl_stderr, 4) + " (" +
         counted(result.windows, "window") + " of " + counted(options.window, "token") +
         (options.stride == 0 ? "" : ", stride " + std::to_string(options.stride)) + ", " +
         std::to_string(result.tokens) + " scored, " + fixed(tokens_per_second, 1) +
         " tokens/s)\n" + (result.divergence ? divergence_text(*result.divergence) : "");
}

std::string perplexity_json(const PerplexityResult& result, const PerplexityOptions& options,
                            double tokens_per_second) {
  Json object = {{"ppl", result.ppl},
                 {"ppl_stderr", result.ppl_stderr},
                 {"tokens", result.tokens},
                 {"chunks", result.windows},
                 {"window", options.window},
                 {"stride", options.stride},
                 {"tokens_per_second", tokens_per_second}};
  if (result.divergence) {
    const DivergenceResult& d = *result.divergence;
    add(object, "base_ppl", d.base_ppl);
    add(object, "ppl_ratio", d.ratio);
    add(object, "ln_ppl_ratio", d.log_ratio);
    object["correlation"] = d.correlation;
    add(object, "kld", d.kld);
    object["kld_quantiles"] = quantile_list(d.kld_quantiles);
    add(object, "same_top", d.same_top);
    add(object, "delta_p", d.delta_p);
    add(object, "delta_p_rms", d.delta_p_rms);
    object["delta_p_quantiles"] = quantile_list(d.delta_p_quantiles);
  }
  return json_text(object);
}

namespace {

struct PerplexityCommand {
  ModelOptions model;
  PerplexityOptions windows;
  std::optional<std::string> text;
  std::optional<std::uint32_t> stride;
  bool json = false;
  struct {
    bool window, stride, chunks;
  } typed{};  ///< true for flags on the command line
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

/// Takes windows and text from the file compared with. Other typed values are refused; settings
/// give way.
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
    throw Error(options.compare, "too many windows: the file has " +
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
  if (options.text) note_unread_stdin("--file", {*options.text});
  if (!reader || options.text) {
    text = perplexity_tokens(model, read_file(options.text.value_or("-")));
    if (reader && !std::ranges::equal(reader->text(), std::span(text).first(std::min(
                                                          text.size(), reader->text().size()))))
      throw Error(options.compare, "made with another text than " + *options.text);
  }
  if (reader) text = reader->text();
  // Windows are checked before memory is allocated.
  const TextWindows windows(text.size(), options.windows);
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
  print_profile(session->profile(), options.model.profile);
}

void answer_choices(const PerplexityCommand& options, const Model& model,
                    const std::vector<ChoiceQuestion>& questions) {
  constexpr std::uint32_t kAtOnce = 4, kPositions = 2048;
  EngineOptions wanted = engine_options(options.model);
  wanted.sequences = kAtOnce;
  wanted.positions = std::max<std::uint64_t>(wanted.n_ctx, kPositions);
  const auto engine = open_engine(model, options.model, wanted);
  run_choices(*engine, questions, options.json);
  print_profile(engine->profile(), options.model.profile);
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

}  // namespace

void add_perplexity(Program& program) {
  Command& command =
      program.add("perplexity",
                  "Measure how well a model predicts a text, and how far it is from another model");
  auto options = std::make_shared<PerplexityCommand>();
  PerplexityCommand& o = *options;
  o.model.session.n_ctx = 512;
  command.add(
      {{"-f,--file", "FILE", "the text (-: stdin, the default)", into::once(into::text(o.text))}});
  command.add(model_flags(o.model));
  command.add({
      window_flag(o.model.session.n_ctx),
      {"--stride", "N",
       "start a window every N tokens; each scores only tokens that no earlier window contained "
       "(default: windows do not overlap, and each scores its second half)",
       into::number(o.stride, 1, 1 << 30)},
      {"--chunks", "N", "stop after N windows (default: all)",
       into::number(o.windows.max_windows, 1, 1 << 30)},
      {"--save-logits",
       "FILE",
       "write the model's log-probabilities to this file, for --compare",
       into::text(o.save_logits),
       {.excludes = "--compare,--base,--state"}},
      {"--compare",
       "FILE",
       "compare with the model whose log-probabilities --save-logits wrote to this file: KL "
       "divergence; text and windows come from the file",
       into::text(o.compare),
       {.excludes = "--base"}},
      {"--base", "FILE", "compare with this model (GGUF): KL divergence; both are evaluated",
       into::text(o.base)},
      {"--state", "FILE", "save progress here; run again with the same arguments to continue",
       into::text(o.state)},
      {"--choices",
       "FILE",
       "multiple-choice questions instead of a text: one JSON object per line, with question, "
       "choices, answer",
       into::text(o.choices),
       {.excludes = "--save-logits,--compare,--base,--state,--file,--stride,--chunks"}},
      {"--json", "",
       "an object: ppl, ppl_stderr, tokens (scored), chunks, tokens_per_second (evaluated) …",
       into::flag(o.json)},
  });
  command.notes =
      "Examples:\n"
      "  cria perplexity -m model.gguf -f wiki.test.raw\n"
      "  cria perplexity -m model.gguf -f wiki.test.raw -c 1024 --stride 512 --json\n"
      "  cria perplexity -m model-Q4_K.gguf --base model-F16.gguf -f wiki.test.raw --state "
      "q4.state\n"
      "  cria perplexity -m model-F16.gguf -f wiki.test.raw --save-logits f16.logits\n"
      "  cria perplexity -m model-Q4_K.gguf --compare f16.logits\n"
      "  cria perplexity -m model.gguf --choices hellaswag.jsonl";
  command.run = [&command, options] {
    options->typed = {command.typed("--window"), command.typed("--stride"),
                      command.typed("--chunks")};
    return run(*options);
  };
}

}  // namespace cria::tools
