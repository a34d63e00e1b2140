// `cria export`: a GGUF file as the directory of a Hugging Face model.
#include <nlohmann/json.hpp>

#include "engine/convert/export.h"
#include "engine/execute/machine.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/types.h"
#include "tools/report/json.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct ExportCommand {
  ExportOptions to;
  std::string type = "auto", shard_size = "5GiB";
  unsigned threads = 0;
  bool verbose = false, json = false;
};

std::string line(const ExportedTensor& tensor) {
  std::string shape;
  for (const std::uint64_t n : tensor.shape)
    shape += (shape.empty() ? "" : " × ") + std::to_string(n);
  return tensor.name + ": " + shape + ", " + std::string(name(tensor.from)) +
         (tensor.from == tensor.type ? "" : " → " + std::string(name(tensor.type))) + ", " +
         human_bytes(tensor.bytes);
}

int run(ExportCommand command) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  ExportOptions& options = command.to;
  options.shard_bytes = parse_size("--shard-size", command.shard_size);
  if (command.type != "auto") options.type = find_dtype(command.type)->id;
  options.threads = command.threads != 0 ? command.threads : usable_cores();
  options.kernels = &kernels_in_use();
  const std::string directory = options.directory;
  Export work(std::move(options));
  for (const std::string& warning : work.warnings()) print_warning(warning);
  std::uint64_t total = 0;
  for (const ExportedTensor& tensor : work.tensors()) total += tensor.bytes;
  {
    Progress progress("exporting", "bytes", total);
    const bool done = work.write(
        [&](std::uint64_t bytes) {
          progress.update(bytes);
          return !interrupted;
        },
        [&](const ExportedTensor& tensor) {
          if (command.verbose) print_line(line(tensor));
        });
    if (!done) throw Interrupted();
  }
  if (command.json) {
    write_stdout(json_text({{"file", directory},
                            {"tensors", work.tensors().size()},
                            {"bytes", total},
                            {"files", work.shards()}}));
    flush_stdout();
    return 0;
  }
  write_text(without_controls(directory) + ": " + counted(work.tensors().size(), "tensor") + ", " +
             human_bytes(total) + " in " + counted(work.shards(), "file") + "\n");
  flush_stdout();
  return 0;
}

}  // namespace

void add_export(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("export", "Convert a GGUF file to a Hugging Face model directory");
  auto options = std::make_shared<ExportCommand>();
  command->add_option("FILE", options->to.file, "GGUF file")->required();
  command->add_option("-o,--output", options->to.directory, "the directory to write: new or empty")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--type", options->type,
                   "type of matrices; auto: floats unchanged, quantized ones as f16")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}))
      ->capture_default_str();
  command
      ->add_option(
          "--shard-size", options->shard_size,
          "largest size of a file of weights: 2G, 500MB (powers of 1000), 300MiB (of 1024)")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("-t,--threads", options->threads, "threads (default: the physical cores)")
      ->type_name("N")
      ->check(range(1, 4096));
  command->add_flag("--json", options->json,
                    "print an object with the directory and the bytes of its weights to stdout");
  command->add_flag("-v,--verbose", options->verbose, "print a line for each tensor to stderr");
  command->footer(
      "Rows of queries and keys are put back into Hugging Face's order. Quantized tensors are "
      "dequantized.\n\n"
      "Example:\n"
      "  cria export model-Q4_K_M.gguf -o model-hf --type bf16");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
