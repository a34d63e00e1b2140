// `cria convert` and `cria export`: Hugging Face and MLX models to GGUF files, and back.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/convert/convert.h"
#include "engine/convert/hf_class.h"
#include "engine/execute/machine.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/table.h"
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

/// "Llama-3.2-1B-Q8_0.gguf" next to the directory Llama-3.2-1B. Only a file that the user named is
/// replaced.
std::string output_for_directory(const std::string& directory, const std::string& type) {
  std::filesystem::path path = std::filesystem::canonical(directory);
  path += (type == "auto" ? "" : "-" + std::string(name(find_dtype(type)->id))) + ".gguf";
  if (std::filesystem::exists(path))
    throw Error(path.string(), "already exists; -o FILE replaces it");
  return path;
}

/// Throws with the command that fetches USER/REPO.
[[noreturn]] void fail_missing(const std::string& directory) {
  const std::filesystem::path path(directory);
  const bool repository = path.is_relative() && std::distance(path.begin(), path.end()) == 2 &&
                          !directory.starts_with('.');
  const std::string local = repository ? path.filename().string() : "DIR";
  throw Error(directory, "no such directory; hf download " +
                             (repository ? directory : "USER/REPO") + " --local-dir " + local +
                             " fetches one");
}

/// Throws for what is not the directory of a model.
void check_directory(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) fail_missing(directory);
  if (directory.ends_with(".gguf"))
    throw Error(directory, "is a GGUF file already; cria quantize changes its type");
  if (!std::filesystem::is_directory(directory, error))
    throw Error(directory, "is a file; expected the directory of the model");
  reject_peft(directory);
}

int run(ConvertCommand command) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  ConvertOptions& options = command.convert;
  check_directory(options.directory);
  if (options.output.empty())
    options.output = output_for_directory(options.directory, command.type);
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
  Json json = {{"file", output},
               {"tensors", conversion.tensors().size()},
               {"bytes", conversion.file_bytes()},
               {"written", !command.dry_run}};
  if (command.dry_run) {
    command.json ? write_stdout(json_text(json)) : write_text(summary + "\n");
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
    return 0;
  }
  write_text(summary +
             (packed ? ", relative error of packed weights " + significant(error.relative()) : "") +
             "\n");
  return 0;
}

}  // namespace

void add_convert(Program& program) {
  Command& command = program.add("convert", "Convert a Hugging Face or MLX model to a GGUF file");
  auto options = std::make_shared<ConvertCommand>();
  command.add({
      {"DIR",
       "",
       "directory with config.json, *.safetensors and tokenizer.model or tokenizer.json",
       into::text(options->convert.directory),
       {.required = true}},
      {"OUT", "", "the file to write (default: next to the directory, named after it and the type)",
       into::output_file(options->convert.output)},
      {"-o,--output",
       "FILE",
       "the same",
       into::output_file(options->convert.output),
       {.excludes = "OUT"}},
      {"--type",
       "",
       "type of matrices; auto: unchanged, and MLX's packed ones in the nearest GGUF type",
       into::choice(options->type, {"auto", "f32", "f16", "bf16", "q8_0"}),
       {.other = "cria quantize makes other types of the converted file"}},
      {"--name", "NAME", "the model's name, general.name (default: the directory's)",
       into::text(options->convert.name)},
  });
  command.add({pre_flag(options->convert.pre)});
  command.add({
      {"-t,--threads", "N", "threads (default: the physical cores)",
       into::number(options->threads, 1, 4096)},
      {"--dry-run", "", "show what would be written, tensor by tensor, and its size",
       into::flag(options->dry_run)},
      {"--json", "", "print an object with the file and its size to stdout",
       into::flag(options->json)},
      {"-v,--verbose", "", "print a line for each tensor to stderr", into::flag(options->verbose)},
  });
  std::string classes;
  for (const HfClass& one : hf_classes())
    classes += (classes.empty() ? "" : ", ") + std::string(one.name);
  std::string wrappers;
  for (const std::string_view one : hf_wrappers())
    wrappers += (wrappers.empty() ? "" : ", ") + std::string(one);
  command.notes = "Classes of models: " + classes + "; and the text models of " + wrappers +
                  ".\n\n"
                  "Examples:\n"
                  "  cria convert Llama-3.2-1B-Instruct -o llama-3.2-1b.gguf\n"
                  "  cria convert Mistral-7B-v0.3 -o mistral.gguf --type q8_0";
  command.run = [options] { return run(*options); };
}

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
    return 0;
  }
  write_text(without_controls(directory) + ": " + counted(work.tensors().size(), "tensor") + ", " +
             human_bytes(total) + " in " + counted(work.shards(), "file") + "\n");
  return 0;
}

}  // namespace

void add_export(Program& program) {
  Command& command = program.add("export", "Convert a GGUF file to a Hugging Face model directory");
  auto options = std::make_shared<ExportCommand>();
  command.add({
      {"FILE", "", "GGUF file", into::text(options->to.file), {.required = true}},
      {"-o,--output",
       "DIR",
       "the directory to write: new or empty",
       into::text(options->to.directory),
       {.required = true}},
      {"--type", "", "type of matrices; auto: floats unchanged, quantized ones as f16",
       into::choice(options->type, {"auto", "f32", "f16", "bf16"})},
      {"--shard-size", "SIZE",
       "largest size of a file of weights: 2G, 500MB (powers of 1000), 300MiB (of 1024)",
       into::text(options->shard_size)},
      {"-t,--threads", "N", "threads (default: the physical cores)",
       into::number(options->threads, 1, 4096)},
      {"--json", "", "print an object with the directory and the bytes of its weights to stdout",
       into::flag(options->json)},
      {"-v,--verbose", "", "print a line for each tensor to stderr", into::flag(options->verbose)},
  });
  command.notes =
      "Rows of queries and keys are put back into Hugging Face's order. Quantized tensors are "
      "dequantized.\n\n"
      "Example:\n"
      "  cria export model-Q4_K_M.gguf -o model-hf --type bf16";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
