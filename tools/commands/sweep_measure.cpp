#include "tools/commands/sweep_report.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "engine/evaluate/divergence.h"
#include "model/plural.h"
#include "tools/commands/bench_passes.h"
#include "tools/commands/inspect_parts.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

namespace fs = std::filesystem;

/// Size, and what a token costs.
SweepRow describe(const std::string& name, const Model& model) {
  const FileSummary summary(model.file());
  SweepRow row;
  row.name = name;
  row.dtype = summary.largest_type();
  row.file_bytes = model.file().file_bytes();
  for (const Node& node : model.graph().nodes) row.read_bytes += node.weight_bytes();
  row.bits_per_weight = summary.bits_per_weight();
  return row;
}

/// Tokens per second. seconds: of n tokens each.
Estimate rate(std::size_t n, const std::vector<double>& seconds) {
  MeanVariance rates;
  for (const double spent : seconds) rates.add(static_cast<double>(n) / spent);
  return {rates.mean, rates.error()};
}

/// Resumes from a state of this measurement; ignores another sweep's.
void go_on(Perplexity& perplexity, const std::string& state) {
  if (!fs::exists(state)) return;
  try {
    perplexity.load(state);
  } catch (const Error&) {
    fs::remove(state);
  }
}

}  // namespace

std::string SweepOptions::path(const std::string& file) const {
  return (fs::path(directory) / file).string();
}

SweepRow SweepMeasurer::measure(const std::string& name, const Model& model) const {
  SweepRow row = describe(name, model);
  if (&model != &base_ && !has_base_logits()) write_base_logits();
  measure_quality(row, model);
  measure_speed(row, model);
  return row;
}

/// Ignores predictions for another text or base.
bool SweepMeasurer::has_base_logits() const {
  if (!fs::exists(base_logits())) return false;
  try {
    const LogProbsReader reader(base_logits(), base_);
    return reader.options().window == options_.windows.window &&
           reader.fingerprint() == LogProbsReader::fingerprint(base_, text_);
  } catch (const Error&) {  // another vocabulary, for example
    return false;
  }
}

/// The base's row is known from an earlier sweep, its predictions are gone.
void SweepMeasurer::write_base_logits() const {
  SweepRow row;
  row.name = fs::path(base_.file().path()).stem().string();
  measure_quality(row, base_);
}

/// Evaluates the windows that are left, with progress.
void SweepMeasurer::evaluate(Perplexity& perplexity, const std::string& name,
                             const std::string& state) const {
  const std::atomic<bool>& interrupted = catch_interrupts();
  // The last token of a window is predicted, not evaluated.
  const std::size_t per_window = options_.windows.window - 1, before = perplexity.done();
  Progress progress(name, "tokens", (perplexity.windows() - before) * per_window);
  const auto on_batch = [&](std::size_t evaluated) {
    progress.update((perplexity.done() - before) * per_window + evaluated, "perplexity");
    return !interrupted;
  };
  while (perplexity.next(on_batch))
    if (!state.empty()) perplexity.save(state);
  if (!interrupted) return;
  progress.wipe();
  print_line(name + ": stopped after " + std::to_string(perplexity.done()) + " of " +
             counted(perplexity.windows(), "window") +
             "; run the same command again to resume from " + options_.directory);
  throw Interrupted();
}

void SweepMeasurer::measure_quality(SweepRow& row, const Model& model) const {
  const auto session = open_session(model, options_.model);
  const std::string state = options_.path(row.name + ".state");
  Perplexity perplexity(*session, text_, options_.windows);
  std::optional<LogProbsWriter> writer;
  std::optional<LogProbsReader> reader;
  if (&model == &base_) {
    writer.emplace(base_logits(), model, text_, options_.windows);
    perplexity.write_to(*writer);
  } else {
    reader.emplace(base_logits(), model);
    perplexity.compare_with(*reader);
    go_on(perplexity, state);
  }
  evaluate(perplexity, row.name, reader ? state : "");
  if (writer) writer->finish();
  const PerplexityResult result = perplexity.result();
  row.ppl = {result.ppl, result.ppl_stderr};
  if (!result.divergence) return;
  row.ratio = result.divergence->ratio;
  row.kld = result.divergence->kld;
  row.same_top = result.divergence->same_top;
  fs::remove(state);
}

void SweepMeasurer::measure_speed(SweepRow& row, const Model& model) const {
  const auto session = open_session(model, options_.model);
  std::vector<TokenId> tokens = text_;
  while (tokens.size() < std::max(options_.prompt, options_.decode))
    tokens.insert(tokens.end(), text_.begin(), text_.end());
  const std::size_t prompt = options_.prompt, decode = options_.decode;
  const auto anew = [&] { session->truncate(0); };
  row.prompt =
      rate(prompt, time_repetitions(row.name, options_.repetitions, prompt, anew, [&](const auto&) {
             session->eval(std::span(tokens).first(prompt));
           }));
  row.decode = rate(decode, time_repetitions(row.name, options_.repetitions, decode, anew,
                                             [&](const auto& on_token) {
                                               for (std::size_t i = 0; i < decode; ++i) {
                                                 session->eval(std::span(tokens).subspan(i, 1));
                                                 on_token(i + 1);
                                               }
                                             }));
}

}  // namespace cria::tools
