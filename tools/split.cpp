// `cria split` and `cria merge`: a model in several files, and in one again.
#include <charconv>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "model/gguf_shards.h"
#include "model/gguf_writer.h"
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/interrupt.h"
#include "tools/table.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

struct SplitCommand {
  std::string input, output, max_size;
  std::uint64_t max_tensors = 0;
  bool dry_run = false, json = false;
};

/// "2G", "500M", "64K": powers of 1000, so that a file fits where that is the limit.
std::uint64_t parse_size(const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const bool known = unit.empty() || (unit.size() == 1 && kUnits.find(unit[0]) != std::string_view::npos);
  if (error != std::errc() || !known || number == 0 || number > 1'000'000'000)
    throw CLI::ValidationError("--max-size", "expected a size (2G, 500M), got " + text);
  for (std::size_t i = 0; !unit.empty() && i <= kUnits.find(unit[0]); ++i) number *= 1000;
  return number;
}

GgufFile open_input(const std::string& path) {
  GgufFile file = GgufFile::open(path);
  for (const std::string& warning : file.warnings()) std::cerr << "cria: warning: " << warning << '\n';
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
    table.add(
        {without_controls(shard.path), std::to_string(shard.end - shard.begin), std::to_string(shard.bytes)});
  return table.text();
}

nlohmann::ordered_json shards_json(const std::vector<Shard>& shards) {
  auto list = nlohmann::ordered_json::array();
  for (const Shard& shard : shards)
    list.push_back({{"file", shard.path}, {"tensors", shard.end - shard.begin}, {"bytes", shard.bytes}});
  return list;
}

std::string pretty(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int split(const SplitCommand& options) {
  SplitLimits limits{options.max_size.empty() ? 0 : parse_size(options.max_size), options.max_tensors};
  if (limits.bytes == 0 && limits.tensors == 0) limits.tensors = 128;
  const GgufFile file = open_input(options.input);
  const std::vector<Shard> shards = plan_shards(file, options.output, limits);
  if (!options.dry_run) {
    Watch watch("splitting", file);
    if (!write_shards(file, shards, std::ref(watch))) throw Interrupted();
  }
  write_stdout(options.json ? pretty(shards_json(shards)) : shards_text(shards));
  flush_stdout();
  return 0;
}

int merge(const SplitCommand& options) {
  const GgufFile file = open_input(options.input);
  if (file.shard_count() == 1)
    throw file.error("nothing to merge: expected the first file of a split model, got a whole one");
  {
    Watch watch("merging", file);
    if (!write_merged(file, options.output, std::ref(watch))) throw Interrupted();
  }
  const auto bytes = std::filesystem::file_size(options.output);
  if (options.json)
    write_stdout(pretty({{"file", options.output}, {"tensors", file.tensors().size()}, {"bytes", bytes}}));
  else
    write_stdout(without_controls(options.output) + ": " + std::to_string(file.tensors().size()) +
                 " tensors, " + std::to_string(bytes) + " bytes, from " + std::to_string(file.shard_count()) +
                 " files\n");
  flush_stdout();
  return 0;
}

}  // namespace

void add_split(CLI::App& app) {
  CLI::App* command = app.add_subcommand("split", "Write a model as several files");
  auto options = std::make_shared<SplitCommand>();
  command->add_option("IN", options->input, "the model (GGUF)")->required();
  command->add_option("PREFIX", options->output, "the files are PREFIX-00001-of-00003.gguf and so on")
      ->required();
  command->add_option("--max-size", options->max_size, "bytes of a file at most: 500M, 2G (powers of 1000)")
      ->type_name("SIZE");
  command
      ->add_option("--max-tensors", options->max_tensors,
                   "tensors of a file at most (default: 128 where no size is given)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  command->add_flag("--dry-run", options->dry_run, "show the files, write nothing");
  command->add_flag("--json", options->json, "an array of the files");
  command->footer("Example:\n  cria split model.gguf model --max-size 2G");
  on_run(command, [options] { return split(*options); });
}

void add_merge(CLI::App& app) {
  CLI::App* command = app.add_subcommand("merge", "Write a model of several files as one");
  auto options = std::make_shared<SplitCommand>();
  command->add_option("FIRST", options->input, "the first of the files, NAME-00001-of-00003.gguf")
      ->required();
  command->add_option("OUT", options->output, "the file to write")->required();
  command->add_flag("--json", options->json, "an object with the file and its size");
  command->footer("Example:\n  cria merge model-00001-of-00003.gguf model.gguf");
  on_run(command, [options] { return merge(*options); });
}

}  // namespace cria::tools
