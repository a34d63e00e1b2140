// `cria imatrix`: which columns of a model's matrices matter, from any text.
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/evaluate/perplexity.h"
#include "engine/quantize/importance_run.h"
#include "model/file/binary_file.h"
#include "model/gguf/writer.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/answer.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct ImatrixCommand {
  ModelOptions model;
  PerplexityOptions windows;
  std::string text, output, state;
  std::vector<std::string> merged;
  bool json = false;
};

/// The work of this run, without an earlier run's.
struct Speed {
  std::uint64_t tokens = 0;
  double seconds = 0;
  [[nodiscard]] double rate() const {
    return tokens == 0 ? 0 : static_cast<double>(tokens) / seconds;
  }
};

/// Evaluates all windows, with progress; keeps the state file up to date.
Speed evaluate(ImportanceRun& run, const ImatrixCommand& options) {
  using Steady = std::chrono::steady_clock;
  const std::atomic<bool>& interrupted = catch_interrupts();
  if (!options.state.empty() && std::filesystem::exists(options.state)) run.load(options.state);
  const std::size_t before = run.done(), window = options.windows.window;
  if (before > 0) print_line(resumed_text(options.state, before, run.windows()));
  Progress progress("importance", "tokens", (run.windows() - before) * window);
  const auto start = Steady::now();
  auto saved = start;
  const auto on_batch = [&](std::size_t evaluated) {
    progress.update((run.done() - before) * window + evaluated);
    return !interrupted;
  };
  while (run.next(on_batch)) {
    if (options.state.empty() || Steady::now() - saved < std::chrono::seconds(2)) continue;
    run.save(options.state);
    saved = Steady::now();
  }
  if (!options.state.empty()) run.save(options.state);
  if (interrupted) {
    progress.wipe();
    print_line(stopped_text(options.state, run.done(), run.windows()));
    throw Interrupted();
  }
  return {(run.done() - before) * window,
          std::chrono::duration<double>(Steady::now() - start).count()};
}

ImportanceMatrix measure(ImatrixCommand options, Speed& speed) {
  options.windows.window = options.model.session.n_ctx;
  const auto model = load_model(options.model);
  require_other_file(model->file(), options.output);
  require_other_file(options.text, options.output);
  namespace fs = std::filesystem;
  const auto place = [](const std::string& file) {
    return fs::weakly_canonical(fs::absolute(file));
  };
  if (!options.state.empty() && place(options.state) == place(options.output))
    throw Error(options.output,
                "cannot be both the importance matrix and --state: another name is needed");
  for (const std::string& file : {options.output, options.state})
    if (!file.empty()) require_writable(file);
  note_unread_stdin("--file", {options.text});
  const std::vector<TokenId> text = perplexity_tokens(*model, read_file(options.text));
  const TextWindows windows(text.size(),
                            options.windows);  // reports errors before memory is allocated
  const auto session = open_session(*model, options.model);
  ImportanceRun run(*session, text, options.windows);
  speed = evaluate(run, options);
  print_profile(session->profile(), options.model.profile);
  return run.result(options.text == "-" ? "stdin"
                                        : std::filesystem::path(options.text).filename().string());
}

int run(const ImatrixCommand& options) {
  (void)catch_interrupts();  // before files are begun, which a signal would leave
  if (options.text.empty() && options.merged.empty())
    throw UsageError("a text (-f) or files to --merge are missing");
  ImportanceMatrix matrix;
  for (const std::string& file : options.merged) matrix.add(ImportanceMatrix::read(file));
  Speed speed;
  if (!options.text.empty()) matrix.add(measure(options, speed));
  matrix.write(options.output);
  if (options.json) {
    write_stdout(json_text({{"output", options.output},
                            {"file", options.output},
                            {"entries", matrix.entries.size()},
                            {"chunks", matrix.chunks},
                            {"chunk_size", matrix.chunk_size},
                            {"datasets", matrix.datasets},
                            {"tokens_per_second", speed.rate()}}));
  } else {
    write_text(without_controls(options.output) + ": importance of " +
               counted(matrix.entries.size(), "tensor") + ", from " +
               counted(matrix.chunks, "window") + " of " + counted(matrix.chunk_size, "token") +
               (speed.tokens > 0 ? " (" + fixed(speed.rate(), 1) + " tokens/s)" : "") + "\n");
  }
  return 0;
}

}  // namespace

void add_imatrix(Program& program) {
  Command& command = program.add(
      "imatrix", "Measure which columns of a model's matrices matter most, for quantizing");
  auto options = std::make_shared<ImatrixCommand>();
  command.add({
      {"-f,--file", "FILE", "a text like those the model will be used for (-: stdin)",
       into::once(into::text(options->text))},
      {"-o,--output",
       "FILE",
       "the importance matrix to write: a GGUF file, or one in the older format if the "
       "name ends in .dat",
       into::output_file(options->output),
       {.required = true}},
  });
  options->model.session.n_ctx = 512;
  command.add(model_flags(options->model));
  command.add({window_flag(options->model.session.n_ctx)});
  command.add({
      {"--chunks", "N", "stop after N windows (default: all)",
       into::number(options->windows.max_windows, 1, 1 << 30)},
      {"--state", "FILE", "save progress here; run again with the same arguments to continue",
       into::text(options->state)},
      {"--merge", "FILE",
       "add these importance matrices of the same model, in either format; without -f "
       "only these "
       "are merged or converted",
       into::words(options->merged)},
      {"--json", "", "an object: entries, chunks, chunk_size, datasets, tokens_per_second",
       into::flag(options->json)},
  });
  command.notes =
      "Examples:\n"
      "  cria imatrix -m model-F16.gguf -f calibration.txt -o model.imatrix.gguf\n"
      "  cria imatrix -m model-F16.gguf -f calibration.txt -o model.imatrix.gguf --chunks 200 "
      "--state "
      "imatrix.state\n"
      "  cria imatrix --merge prose.gguf code.dat -o both.imatrix.gguf";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
