// `cria convert`: a directory of a Hugging Face or MLX model as a GGUF file.
#include <nlohmann/json.hpp>

#include "engine/convert/convert.h"
#include "engine/convert/hf_class.h"
#include "engine/execute/machine.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/model.h"
#include "tools/report/json.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct ConvertCommand {
  ConvertOptions convert;
  std::string type = "auto";
  unsigned threads = 0;
  bool dry_run = false, verbose = false, json = false;
};

std::string line(const ConvertedTensor& tensor) {
  std::string shape;
  for (const std::uint64_t n : tensor.shape)
    shape += (shape.empty() ? "" : " × ") + std::to_string(n);
  std::string text = tensor.name + ": " + shape + ", " + tensor.form;
  if (tensor.form != name(tensor.type)) text += " → " + std::string(name(tensor.type));
  text += ", " + human_bytes(tensor.bytes);
  if (tensor.error) text += ", relative error " + significant(tensor.error->relative());
  return text;
}

int run(ConvertCommand command) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  ConvertOptions& options = command.convert;
  if (command.type != "auto") options.type = find_dtype(command.type)->id;
  options.threads = command.threads != 0 ? command.threads : usable_cores();
  options.kernels = &kernels_in_use();
  const std::string output = options.output;
  Conversion conversion(std::move(options));
  for (const std::string& warning : conversion.warnings()) print_warning(warning);
  std::uint64_t total = 0;
  for (const ConvertedTensor& tensor : conversion.tensors()) {
    total += tensor.bytes;
    if (command.dry_run && !command.json) write_text(line(tensor) + "\n");
  }
  const std::string summary = without_controls(output) + ": " +
                              counted(conversion.tensors().size(), "tensor") + ", " +
                              human_bytes(conversion.file_bytes());
  nlohmann::ordered_json json = {{"file", output},
                                 {"tensors", conversion.tensors().size()},
                                 {"bytes", conversion.file_bytes()},
                                 {"written", !command.dry_run}};
  if (command.dry_run) {
    command.json ? write_stdout(json_text(json)) : write_text(summary + "\n");
    flush_stdout();
    return 0;
  }
  FormError error;
  bool packed = false;
  {
    Progress progress("converting", "bytes", total);
    const bool done = conversion.write(
        [&](std::uint64_t bytes) {
          progress.update(bytes);
          return !interrupted;
        },
        [&](const ConvertedTensor& tensor) {
          if (command.verbose) print_line(line(tensor));
          packed |= tensor.error.has_value();
          if (tensor.error) error.add(*tensor.error);
        });
    if (!done) throw Interrupted();
  }
  if (command.json) {
    if (packed) json["relative_error"] = error.relative();
    write_stdout(json_text(json));
    flush_stdout();
    return 0;
  }
  write_text(summary +
             (packed ? ", relative error of packed weights " + significant(error.relative()) : "") +
             "\n");
  flush_stdout();
  return 0;
}

}  // namespace

void add_convert(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("convert", "Convert a Hugging Face or MLX model to a GGUF file");
  auto options = std::make_shared<ConvertCommand>();
  command
      ->add_option(
          "DIR", options->convert.directory,
          "directory with config.json, *.safetensors and tokenizer.model or tokenizer.json")
      ->required();
  command->add_option("-o,--output", options->convert.output, "the file to write")
      ->type_name("FILE")
      ->check(named_file())
      ->required();
  command
      ->add_option(
          "--type", options->type,
          "type of matrices; auto: unchanged, and MLX's packed ones in the nearest GGUF type")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16", "q8_0"}))
      ->capture_default_str();
  command
      ->add_option("--name", options->convert.name,
                   "the model's name, general.name (default: the directory's)")
      ->type_name("NAME");
  add_pre_option(*command, options->convert.pre);
  command->add_option("-t,--threads", options->threads, "threads (default: the physical cores)")
      ->type_name("N")
      ->check(range(1, 4096));
  command->add_flag("--dry-run", options->dry_run,
                    "show what would be written, tensor by tensor, and its size");
  command->add_flag("--json", options->json,
                    "print an object with the file and its size to stdout");
  command->add_flag("-v,--verbose", options->verbose, "print a line for each tensor to stderr");
  std::string classes;
  for (const HfClass& one : hf_classes())
    classes += (classes.empty() ? "" : ", ") + std::string(one.name);
  std::string wrappers;
  for (const std::string_view one : hf_wrappers())
    wrappers += (wrappers.empty() ? "" : ", ") + std::string(one);
  command->footer("Classes of models: " + classes + "; and the text models of " + wrappers +
                  ".\n"
                  "Examples:\n"
                  "  cria convert Llama-3.2-1B-Instruct -o llama-3.2-1b.gguf\n"
                  "  cria convert Mistral-7B-v0.3 -o mistral.gguf --type q8_0");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
