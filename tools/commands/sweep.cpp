// `cria sweep`: which quantization of a model to run on this machine. Figures of every file, a
// table, plots.
#include <CLI/CLI.hpp>

#include "engine/quantize/quantize.h"
#include "tools/commands/commands.h"
#include "tools/commands/sweep_run.h"
#include "tools/options/command.h"
#include "tools/options/model.h"
#include "tools/options/types.h"

namespace cria::tools {
namespace {

int run(SweepOptions options) {
  if (options.files.empty() && options.types.empty())
    throw CLI::ValidationError("quantizations to compare are missing: files, or --types");
  for (const std::string& type : options.types) {
    if (find_mix(type) == nullptr) throw CLI::ValidationError("--types", unknown_mix_text(type));
  }
  const auto base = load_model(options.model);
  return run_sweep(std::move(options), *base);
}

/// How much of the text is evaluated, and what is timed.
void add_measuring_options(CLI::App& command, SweepOptions& options) {
  command.add_option(kWindowNames, options.windows.window, "tokens per window")
      ->type_name("N")
      ->check(range(3, 1 << 24))
      ->capture_default_str();
  command.add_option("--chunks", options.windows.max_windows, "stop after N windows; 0: all")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("-p,--prompt", options.prompt, "length of the timed prompt, in tokens")
      ->type_name("N")
      ->check(range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("-n,--decode", options.decode, "number of timed tokens in decoding")
      ->type_name("N")
      ->check(range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("-r,--repetitions", options.repetitions, "timed runs, after one warm-up run")
      ->type_name("N")
      ->check(range(1, 1000))
      ->capture_default_str();
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "sweep", "Compare quantizations of a model: size, perplexity, divergence, speed");
  auto options = std::make_shared<SweepOptions>();
  command->add_option("files", options->files, "existing quantizations of the model (GGUF)");
  command
      ->add_option("--types", options->types,
                   "quantizations to make of the model and measure (see cria quantize --mixes)")
      ->type_name("TYPE,TYPE...")
      ->delimiter(',');
  command->add_option("--imatrix", options->imatrix, "importance matrix for --types")
      ->type_name("FILE");
  command->add_flag("--allow-requantize", options->allow_requantize,
                    "accept a quantized model for --types, which costs quality");
  command->add_flag(
      "--keep", options->keep,
      "keep the models made by --types (MODEL-TYPE.gguf; existing ones are replaced) and the "
      "base model's predictions (large)");
  command->add_option("-f,--file", options->text, "the text to measure with (-: stdin)")
      ->type_name("FILE")
      ->required();
  command
      ->add_option(
          "-o,--output", options->directory,
          "directory for the table (sweep.md, .csv, .json), the plots (perplexity.svg, speed.svg) "
          "and what is needed to continue after an interruption")
      ->type_name("DIR")
      ->required();
  add_model_options(*command, options->model);
  command->get_option("--model")
      ->description("the base model to compare with, usually F16 (GGUF)")
      ->required();
  command->remove_option(command->get_option("--ctx"));
  command->remove_option(command->get_option("--profile"));
  add_measuring_options(*command, *options);
  command->add_flag("--json", options->json, "print the table as JSON to stdout");
  command->footer(
      "Examples:\n"
      "  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep --types Q8_0,Q4_K_M\n"
      "  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep model-Q8_0.gguf model-Q4_K_M.gguf");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
