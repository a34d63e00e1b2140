// `cria split` and `cria merge`: a model in several files, and in one again.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/convert/merge_adapters.h"
#include "engine/execute/machine.h"
#include "model/gguf/rewrite.h"
#include "model/gguf/writer.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/model.h"
#include "tools/options/types.h"
#include "tools/report/json.h"
#include "tools/report/table.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/process.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct SplitCommand {
  std::string input, output, max_size;
  std::uint64_t max_tensors = 0;
  std::vector<std::string> loras;
  std::string type;
  unsigned threads = 0;
  bool dry_run = false, json = false;
};

GgufFile open_input(const std::string& path) {
  GgufFile file = GgufFile::open(path);
  for (const std::string& warning : file.warnings()) print_warning(warning);
  return file;
}

/// Shows progress and stops at Ctrl-C.
class Watch {
 public:
  Watch(const char* what, const GgufFile& file) : progress_(what, "bytes", file.file_bytes()) {}
  bool operator()(std::uint64_t bytes) {
    progress_.update(bytes);
    return !interrupted_;
  }

 private:
  Progress progress_;
  const std::atomic<bool>& interrupted_ = catch_interrupts();
};

std::string shards_text(const std::vector<Shard>& shards) {
  Table table({"file", ">tensors", ">bytes"});
  for (const Shard& shard : shards)
    table.add({without_controls(shard.path), std::to_string(shard.end - shard.begin),
               std::to_string(shard.bytes)});
  return table.text(stdout);
}

nlohmann::ordered_json shards_json(const std::vector<Shard>& shards) {
  auto list = nlohmann::ordered_json::array();
  for (const Shard& shard : shards)
    list.push_back(
        {{"file", shard.path}, {"tensors", shard.end - shard.begin}, {"bytes", shard.bytes}});
  return list;
}

int split(const SplitCommand& options) {
  SplitLimits limits{options.max_size.empty() ? 0 : parse_size("--max-size", options.max_size),
                     options.max_tensors};
  if (limits.bytes == 0 && limits.tensors == 0) limits.tensors = 128;
  const GgufFile file = open_input(options.input);
  const std::vector<Shard> shards = plan_shards(file, options.output, limits);
  if (!options.dry_run) {
    allow_descriptors(shards.size() + 256);  // all are open until they are complete
    Watch watch("splitting", file);
    if (!write_shards(file, shards, std::ref(watch))) throw Interrupted();
  }
  write_stdout(options.json ? json_text(shards_json(shards)) : shards_text(shards));
  flush_stdout();
  return 0;
}

bool merge_loras(const GgufFile& file, const SplitCommand& options) {
  const std::vector<LoraFile> loras = parse_loras(options.loras);
  for (const LoraFile& lora : loras) require_other_file(lora.path, options.output);
  const Adapters adapters = Adapters::load(loras, file);
  for (const std::string& warning : adapters.warnings()) print_warning(warning);
  MergeOptions how{.output = options.output,
                   .threads = options.threads == 0 ? usable_cores() : options.threads,
                   .kernels = &kernels_in_use()};
  if (!options.type.empty()) how.type = find_dtype(options.type)->id;
  Watch watch("merging", file);
  return merge_adapters(file, adapters, how, std::ref(watch));
}

int merge(const SplitCommand& options) {
  const GgufFile file = open_input(options.input);
  if (options.loras.empty() && file.shard_count() == 1)
    throw file.error(
        "nothing to merge: expected the first file of a split model, or adapters (--lora), got a "
        "model in "
        "one file");
  if (!options.loras.empty()) {
    if (!merge_loras(file, options)) throw Interrupted();
  } else {
    Watch watch("merging", file);
    if (!write_merged(file, options.output, std::ref(watch))) throw Interrupted();
  }
  const auto bytes = std::filesystem::file_size(options.output);
  if (options.json)
    write_stdout(json_text(
        {{"file", options.output}, {"tensors", file.tensors().size()}, {"bytes", bytes}}));
  else
    write_text(without_controls(options.output) + ": " + counted(file.tensors().size(), "tensor") +
               ", " + counted(bytes, "byte") + ", from " + counted(file.shard_count(), "file") +
               "\n");
  flush_stdout();
  return 0;
}

}  // namespace

void add_split(CLI::App& app) {
  CLI::App* command = app.add_subcommand("split", "Write a model as several files");
  auto options = std::make_shared<SplitCommand>();
  command->add_option("IN", options->input, "the model (GGUF)")->required();
  command
      ->add_option("PREFIX", options->output, "the files are PREFIX-00001-of-00003.gguf and so on")
      ->required();
  command
      ->add_option("--max-size", options->max_size,
                   "largest size of a file: 2G, 500MB (powers of 1000), 300MiB (of 1024)")
      ->type_name("SIZE");
  command
      ->add_option("--max-tensors", options->max_tensors,
                   "at most N tensors per file (default: 128 if no size is given)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  command->add_flag("--dry-run", options->dry_run, "show the files without writing them");
  command->add_flag("--json", options->json, "print an array of the files");
  command->footer("Example:\n  cria split model.gguf model --max-size 2G");
  on_run(command, [options] { return split(*options); });
}

void add_merge(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("merge", "Write a split model, or a model with adapters, as one file");
  auto options = std::make_shared<SplitCommand>();
  command
      ->add_option("IN", options->input,
                   "the model, or the first file of a split one, NAME-00001-of-00003.gguf")
      ->required();
  command->add_option("OUT", options->output, "the file to write")->required()->check(named_file());
  add_lora_option(*command, options->loras);
  command
      ->add_option("--type", options->type,
                   "type of the matrices that adapters change (default: unchanged)")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}))
      ->needs("--lora");
  command->add_option("-t,--threads", options->threads, "threads (default: the physical cores)")
      ->type_name("N")
      ->check(range(1, 4096));
  command->add_flag("--json", options->json, "print an object with the file and its size");
  command->footer(
      "Examples:\n  cria merge model-00001-of-00003.gguf model.gguf\n"
      "  cria merge base.gguf --lora style.gguf:0.8 merged.gguf");
  on_run(command, [options] { return merge(*options); });
}

}  // namespace cria::tools
