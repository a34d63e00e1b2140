// `cria inspect`: what a model file holds, and what this machine can do with it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/architectures/architecture.h"
#include "engine/execute/machine.h"
#include "model/config.h"
#include "model/plural.h"
#include "tools/cli/settings.h"
#include "tools/commands/commands.h"
#include "tools/commands/inspect_parts.h"
#include "tools/model_store.h"
#include "tools/options/model.h"
#include "tools/report/roofline.h"
#include "tools/report/table.h"
#include "tools/report/value_check.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct InspectOptions {
  std::string file, model, other;
  bool names_file = false;  ///< FILE or -m is typed
  bool kv = false, tensors = false, vocabulary = false, chat_template = false, graph = false,
       check = false, cpu = false, measure = false, json = false;

  /// Parts of a file that are asked for; none: all are shown.
  [[nodiscard]] bool names_parts() const {
    return kv || tensors || vocabulary || chat_template || graph || check;
  }
};

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// The nodes of the graph that would run here. Needs metadata and tensor shapes only.
std::string graph_text(const GgufFile& file) {
  return build_graph(file, read_config(file), kernels_in_use()).graph.to_string();
}

/// The output.
struct Report {
  std::string text;
  Json json = Json::object();
  std::optional<GgufFile> file;  ///< its keys replace kKeysMember in the JSON
};

constexpr const char* kKeysMember = "metadata";

/// Holds one array element in memory at a time: arrays may be as large as the file.
void write_keys(const GgufFile& file) {
  const char* before = "{\n  ";
  for (const GgufKey& key : file.keys()) {
    write_stdout(before + dump(std::string(key.key)) + ": ");
    write_metadata_json(file, key.value, 2, write_stdout);
    before = ",\n  ";
  }
  write_stdout(file.keys().empty() ? "{}" : "\n }");
}

void write_json(const Report& report) {
  const char* before = "{\n ";
  for (const auto& [key, value] : report.json.items()) {
    write_stdout(before + dump(key) + ": ");
    if (key == kKeysMember) {
      write_keys(*report.file);
    } else {
      for (const char c : dump(value, 1))
        write_stdout(c == '\n' ? std::string_view("\n ") : std::string_view(&c, 1));
    }
    before = ",\n ";
  }
  write_stdout("\n}\n");
}

void print_warnings(const GgufFile& file) {
  for (const std::string& warning : file.warnings()) print_warning(warning);
  const auto missing =
      std::count_if(file.tensors().begin(), file.tensors().end(),
                    [](const TensorView& tensor) { return tensor.data == nullptr; });
  if (missing > 0)
    print_warning(file.path() + ": the file ends before the data of " + std::to_string(missing) +
                  " of " + counted(file.tensors().size(), "tensor"));
}

int inspect_file(const InspectOptions& options, Report& report) {
  const std::string path = find_model(options.file.empty() ? options.model : options.file);
  const GgufFile& file = report.file.emplace(GgufFile::open(path, {.metadata_only = true}));
  Json& json = report.json;
  std::string& text = report.text;
  print_warnings(file);
  const bool all = !options.names_parts();
  if (options.json) {
    json["file"] = {{"path", path},
                    {"version", file.version()},
                    {"alignment", file.alignment()},
                    {"bytes", file.file_bytes()},
                    {"shards", file.shard_count()}};
    json["summary"] = summary_json(file);
  } else if (all) {
    text += summary_text(file) + "\n";
  }
  const auto add = [&](bool wanted, const char* key, const auto& as_json, const auto& as_text) {
    if (!wanted) return;
    if (options.json)
      json[key] = as_json();
    else
      text += as_text() + (all ? "\n" : "");
  };
  add(
      all || options.kv, kKeysMember, [] { return Json(); }, [&] { return keys_text(file); });
  add(
      all || options.vocabulary, "tokenizer", [&] { return tokenizer_json(file); },
      [&] { return tokenizer_text(file); });
  add(
      options.chat_template, "template", [&] { return Json(template_text(file)); },
      [&] {
        const std::string whole = template_text(file);
        return whole.ends_with('\n') ? whole : whole + "\n";
      });
  add((all && options.json) || options.tensors, "tensors", [&] { return tensors_json(file); },
      [&] { return tensors_text(file); });
  add(
      options.graph, "graph", [&] { return Json(graph_text(file)); },
      [&] { return graph_text(file); });
  if (all && !options.json)
    text += counted(file.tensors().size(), "tensor") + "; --tensors lists them\n";
  if (!options.check) return 0;
  const std::vector<TensorValues> values = check_values(file);
  add(
      true, "check", [&] { return check_json(values); }, [&] { return check_text(values); });
  if (options.json) json["statistics"] = statistics_json(values);
  return std::ranges::all_of(values, &TensorValues::good) ? 0 : 1;
}

/// Exit codes as diff's: 0 equal, 1 different.
int inspect_difference(const InspectOptions& options, Report& report) {
  const std::string path = find_model(options.file.empty() ? options.model : options.file);
  const GgufFile a = GgufFile::open(path, {.metadata_only = true});
  const GgufFile b = GgufFile::open(find_model(options.other), {.metadata_only = true});
  print_warnings(a);
  print_warnings(b);
  const FileDifference difference = compare_files(a, b);
  if (options.json)
    report.json["difference"] = difference_json(difference);
  else
    report.text += difference_text(difference, path, options.other);
  return difference.none() ? 0 : 1;
}

int run(const InspectOptions& options) {
  Report report;
  int code = 0;
  if (options.cpu) {
    if (options.json)
      report.json["cpu"] = cpu_json(options.measure);
    else
      report.text += cpu_text(options.measure);
  }
  if (!options.other.empty())
    code = inspect_difference(options, report);
  else if (!options.cpu || options.names_file || options.names_parts())  // else only the machine
    code = inspect_file(options, report);
  if (options.json)
    write_json(report);
  else if (options.chat_template)
    write_stdout(for_stream(stdout, report.text));  // no lines broken
  else
    write_text(report.text);
  return code;
}

}  // namespace

void add_inspect(Program& program) {
  Command& command =
      program.add("inspect", "Show what a model file holds, or what this machine can do");
  auto options = std::make_shared<InspectOptions>();
  InspectOptions& o = *options;
  command.add({
      {"FILE",
       "",
       "GGUF file, or a name of cria list (default: as -m)",
       into::text(o.file),
       {.excludes = "--model"}},
      model_flag(o.model),
      {"--kv", "", "show only the metadata", into::flag(o.kv)},
      {"--tokenizer", "",
       "show only the tokenizer: its kind, special tokens, the tokens that end an answer",
       into::flag(o.vocabulary)},
      {"--template", "", "show only the chat template, as it is in the file",
       into::flag(o.chat_template)},
      {"--tensors", "", "show only the tensors", into::flag(o.tensors)},
      {"--graph", "", "show the compute graph, node by node", into::flag(o.graph)},
      {"--check", "",
       "check every value for NaN and infinity (exit code 1 if there are any), and show statistics "
       "of each tensor",
       into::flag(o.check)},
      {"--diff",
       "FILE",
       "compare with this file: keys, tensors' types and shapes, values; exit code 1 if they "
       "differ",
       into::text(o.other),
       {.excludes = "--kv,--tokenizer,--template,--tensors,--graph,--check"}},
      {"--cpu", "",
       "show this machine: processor, caches, memory, instruction sets ($CRIA_ISA forces one)",
       into::flag(o.cpu)},
      {"--measure",
       "",
       "with --cpu: also measure its read rate and peak arithmetic rates (takes some seconds)",
       into::flag(o.measure),
       {.needs = "--cpu"}},
      {"--json", "", "print everything as a JSON object, with complete arrays", into::flag(o.json)},
  });
  command.notes =
      "Examples:\n"
      "  cria inspect model.gguf\n"
      "  cria inspect model.gguf --json --kv\n"
      "  cria inspect model-F16.gguf --diff model-Q4_K_M.gguf\n"
      "  cria inspect --cpu";
  command.run = [&command, options] {
    options->names_file = !options->file.empty() || command.typed("--model");
    return run(*options);
  };
}

}  // namespace cria::tools
