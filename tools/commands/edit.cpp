// `cria edit`, `cria split` and `cria merge`: a model with other metadata, in several files, in
// one.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/convert/convert.h"
#include "engine/execute/machine.h"
#include "model/gguf/rewrite.h"
#include "model/gguf/writer.h"
#include "model/plural.h"
#include "tokenizer/chat/chat_template.h"
#include "tools/commands/commands.h"
#include "tools/model_store.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

struct EditCommand {
  std::string input, output, template_file;
  std::vector<std::string> set, remove;
  bool json = false;
};

GgufEdit parse_edit(const EditCommand& options) {
  GgufEdit edit;
  for (const std::string& text : options.set) edit.set.push_back(parse_metadata("--set", text));
  edit.remove = options.remove;
  if (!options.template_file.empty()) {
    std::string source = read_file(options.template_file);
    (void)ChatTemplate::parse(source, input_name(options.template_file),
                              {});  // refuses what no model could be asked with
    edit.set.emplace_back("tokenizer.chat_template", std::move(source));
  }
  if (edit.set.empty() && edit.remove.empty())
    throw UsageError("nothing to change: give --set, --remove or --template");
  return edit;
}

/// A reader that looks for the old type would not find the new one.
void warn_of_new_types(const GgufFile& file, const GgufEdit& edit) {
  for (const auto& [key, value] : edit.set) {
    const GgufValue* const before = file.find(key);
    if (before != nullptr && before->type != value.type())
      print_warning(without_controls(key) + " was of type " + std::string(name(before->type)) +
                    ", now " + std::string(name(value.type())));
  }
}

void report(const EditCommand& options, const GgufEdit& edit, const GgufFile& file) {
  const auto bytes = std::filesystem::file_size(options.output);
  if (options.json) {
    const Json json = {{"file", options.output},
                       {"set", edit.set.size()},
                       {"removed", edit.remove.size()},
                       {"tensors", file.tensors().size()},
                       {"bytes", bytes}};
    write_stdout(json_text(json));
  } else {
    write_text(without_controls(options.output) + ": " + counted(edit.set.size(), "key") +
               " set, " + std::to_string(edit.remove.size()) + " removed, " +
               counted(file.tensors().size(), "tensor") + " as before, " + counted(bytes, "byte") +
               "\n");
  }
  flush_stdout();
}

int run(const EditCommand& options) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  const GgufEdit edit = parse_edit(options);
  const GgufFile file = GgufFile::open(find_model(options.input));
  for (const std::string& warning : file.warnings()) print_warning(warning);
  {
    Progress progress("copying", "bytes", file.file_bytes());
    const bool done = write_edited(file, options.output, edit, [&](std::uint64_t bytes) {
      progress.update(bytes);
      return !interrupted;
    });
    if (!done) throw Interrupted();
  }
  warn_of_new_types(file, edit);
  report(options, edit, file);
  return 0;
}

}  // namespace

void add_edit(Program& program) {
  Command& command =
      program.add("edit", "Write a model with changed metadata and the same tensors");
  auto options = std::make_shared<EditCommand>();
  command.add({
      {"IN", "", "the model (GGUF)", into::text(options->input), {.required = true}},
      {"OUT",
       "",
       "the file to write; not IN",
       into::output_file(options->output),
       {.required = true}},
      {"--set", "KEY=TYPE:VALUE",
       "set a key; TYPE: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string, or one of "
       "these with "
       "[] for an array, whose VALUE is JSON; may be repeated",
       into::each(options->set)},
      {"--remove", "KEY", "remove a key; may be repeated", into::each(options->remove)},
      {"--template", "FILE", "set the chat template to that of a Jinja2 file (-: stdin)",
       into::text(options->template_file)},
      {"--json", "", "print an object with the file and its size", into::flag(options->json)},
  });
  command.notes =
      "Examples:\n"
      "  cria edit model.gguf new.gguf --set general.sampling.temp=f32:0.2\n"
      "  cria edit model.gguf new.gguf --set 'tokenizer.ggml.eot_token_id=u32:7' --remove "
      "general.url\n"
      "  cria edit old.gguf new.gguf --set 'general.languages=string[]:[\"en\", \"fr\"]'\n"
      "  cria edit model.gguf new.gguf --template chat.jinja";
  command.run = [options] { return run(*options); };
}

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
  GgufFile file = GgufFile::open(find_model(path));
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

Json shards_json(const std::vector<Shard>& shards) {
  auto list = Json::array();
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
  return 0;
}

}  // namespace

void add_split(Program& program) {
  Command& command = program.add("split", "Write a model as several files");
  auto options = std::make_shared<SplitCommand>();
  command.add({
      {"IN", "", "the model (GGUF)", into::text(options->input), {.required = true}},
      {"PREFIX",
       "",
       "the files are PREFIX-00001-of-00003.gguf and so on",
       into::text(options->output),
       {.required = true}},
      {"--max-size", "SIZE", "largest size of a file: 2G, 500MB (powers of 1000), 300MiB (of 1024)",
       into::text(options->max_size)},
      {"--max-tensors", "N", "at most N tensors per file (default: 128 if no size is given)",
       into::number(options->max_tensors, 1, 1 << 30)},
      {"--dry-run", "", "show the files without writing them", into::flag(options->dry_run)},
      {"--json", "", "print an array of the files", into::flag(options->json)},
  });
  command.notes = "Example:\n  cria split model.gguf model --max-size 2G";
  command.run = [options] { return split(*options); };
}

void add_merge(Program& program) {
  Command& command =
      program.add("merge", "Write a split model, or a model with adapters, as one file");
  auto options = std::make_shared<SplitCommand>();
  command.add({
      {"IN",
       "",
       "the model, or the first file of a split one, NAME-00001-of-00003.gguf",
       into::text(options->input),
       {.required = true}},
      {"OUT", "", "the file to write", into::output_file(options->output), {.required = true}},
  });
  command.add({lora_flag(options->loras)});
  command.add({
      {"--type",
       "",
       "type of the matrices that adapters change (default: unchanged)",
       into::choice(options->type, {"f32", "f16", "bf16", "q8_0"}),
       {.needs = "--lora"}},
      {"-t,--threads", "N", "threads (default: the physical cores)",
       into::number(options->threads, 1, 4096)},
      {"--json", "", "print an object with the file and its size", into::flag(options->json)},
  });
  command.notes =
      "Examples:\n  cria merge model-00001-of-00003.gguf model.gguf\n"
      "  cria merge base.gguf --lora style.gguf:0.8 merged.gguf";
  command.run = [options] { return merge(*options); };
}

}  // namespace cria::tools
