// `cria inspect`: what a model file holds, and what this machine can do with it.
#include <algorithm>
#include <map>
#include <optional>

#include "engine/architectures/architecture.h"
#include "engine/sample/defaults.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/find_model.h"
#include "tools/options/model.h"
#include "tools/options/settings.h"
#include "tools/report/bench_report.h"
#include "tools/report/file_difference.h"
#include "tools/report/machine.h"
#include "tools/report/metadata_json.h"
#include "tools/report/roofline.h"
#include "tools/report/table.h"
#include "tools/report/value_check.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string file, model, other;
  bool names_file = false;  ///< FILE or -m is typed
  bool kv = false, tensors = false, vocabulary = false, chat_template = false, graph = false, check = false,
       cpu = false, measure = false, json = false;

  /// Parts of a file that are asked for; none: all are shown.
  [[nodiscard]] bool names_parts() const {
    return kv || tensors || vocabulary || chat_template || graph || check;
  }
};

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

struct Summary {
  std::uint64_t parameters = 0, bytes = 0;
  std::map<std::string_view, std::uint64_t> types;  // tensors of each type

  explicit Summary(const GgufFile& file) {
    for (const TensorView& tensor : file.tensors()) {
      parameters += tensor.cols() * tensor.rows();
      bytes += tensor.bytes;
      ++types[name(tensor.dtype)];
    }
  }
  [[nodiscard]] double bits_per_weight() const {
    return parameters == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
  }
};

/// A string value, or "" where the key is missing or of another type.
std::string string_or_empty(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr || value->type != GgufType::String) return "";
  return metadata_json(file, *value).get<std::string>();
}

/// How an answer is drawn where the command line says nothing.
std::string sampling_in_force(const GgufFile& file) {
  SamplerOptions options;
  try {
    set_sampling_defaults(file, options);
  } catch (const Error& error) {
    return "refused: " + without_controls(error.what());
  }
  return sampling_text(options, file);
}

Json summary_json(const GgufFile& file) {
  const Summary summary(file);
  Json types = Json::object();
  for (const auto& [type, count] : summary.types) types[std::string(type)] = count;
  return {{"architecture", string_or_empty(file, "general.architecture")},
          {"name", string_or_empty(file, "general.name")},
          {"parameters", summary.parameters},
          {"bits_per_weight", summary.bits_per_weight()},
          {"tensor_bytes", summary.bytes},
          {"types", types},
          {"sampling", sampling_in_force(file)}};
}

std::string summary_text(const GgufFile& file) {
  const Summary summary(file);
  std::string types;
  for (const auto& [type, count] : summary.types)
    types += (types.empty() ? "" : ", ") + std::to_string(count) + " × " + std::string(type);
  const std::string title = string_or_empty(file, "general.name"),
                    arch = string_or_empty(file, "general.architecture");
  return without_controls(file.path()) + ": GGUF version " + std::to_string(file.version()) + ", " +
         human_bytes(file.file_bytes()) +
         (file.shard_count() > 1 ? " in " + counted(file.shard_count(), "file") : "") + "\n" +
         without_controls((title.empty() ? "unnamed" : title) + ", architecture " +
                          (arch.empty() ? "not stated" : arch)) +
         "\n" + human_count(summary.parameters) + " parameters, " + fixed(summary.bits_per_weight(), 2) +
         " bits per weight; tensors: " + (types.empty() ? "none" : types) +
         "\nsampling: " + sampling_in_force(file) + "\n";
}

std::string type_text(const GgufValue& value) {
  if (value.type != GgufType::Array) return std::string(name(value.type));
  return std::string(name(value.element)) + "[" + std::to_string(value.count) + "]";
}

/// On one line, cut short: at most 8 elements and 72 bytes.
std::string value_text(const GgufFile& file, const GgufValue& value) {
  constexpr std::size_t kElements = 8, kBytes = 72;
  std::string text = dump(metadata_json(file, value, kElements));
  bool cut = value.type == GgufType::Array && value.count > kElements;
  if (cut) text.pop_back();  // the closing bracket
  if (text.size() > kBytes) {
    std::size_t end = kBytes;
    while ((text[end] & 0xC0) == 0x80) --end;
    text.resize(end);
    cut = true;
  }
  return cut ? text + " …" : text;
}

/// A role of a token ("bos", "end of generation") and the token.
using TokenUses = std::vector<std::pair<std::string, TokenId>>;

TokenUses token_uses(const Vocabulary& v) {
  TokenUses uses;
  const auto add = [&](const char* use, std::optional<TokenId> id) {
    if (id) uses.emplace_back(use, *id);
  };
  add("bos", v.bos);
  add("eos", v.eos);
  add("eot", v.eot);
  add("eom", v.eom);
  add("unknown", v.unk);
  add("separator", v.sep);
  add("padding", v.pad);
  for (const TokenId id : v.end_of_generation) add("end of generation", id);
  return uses;
}

/// What the vocabulary says; nothing if the file has none that can be read.
std::optional<Vocabulary> find_vocabulary(const GgufFile& file) {
  if (file.find("tokenizer.ggml.tokens") == nullptr) return std::nullopt;
  try {
    return Vocabulary::from_gguf(file);
  } catch (const Error& error) {
    print_warning(error.what());
    return std::nullopt;
  }
}

std::string tokenizer_text(const GgufFile& file) {
  const auto v = find_vocabulary(file);
  if (!v) return "no vocabulary\n";
  std::string text = "tokenizer " + without_controls(v->model) +
                     (v->pre.empty() ? "" : ", pre-tokenizer " + without_controls(v->pre)) + ", " +
                     counted(v->tokens.size(), "token") +
                     (v->merges.empty() ? "" : ", " + counted(v->merges.size(), "merge")) +
                     (v->add_bos ? ", BOS added" : "") + (v->add_eos ? ", EOS added" : "") + "\n";
  Table table({"use", ">id", "token"});
  for (const auto& [use, id] : token_uses(*v))
    table.add(
        {use, std::to_string(id), without_controls(std::string(v->tokens[static_cast<std::size_t>(id)]))});
  return text + table.text(stdout);
}

Json tokenizer_json(const GgufFile& file) {
  const auto v = find_vocabulary(file);
  if (!v) return nullptr;
  Json uses = Json::object();
  for (const auto& [use, id] : token_uses(*v))
    if (use != "end of generation") uses[use] = id;
  return {{"model", v->model},
          {"pre", v->pre},
          {"tokens", v->tokens.size()},
          {"merges", v->merges.size()},
          {"add_bos", v->add_bos},
          {"add_eos", v->add_eos},
          {"special", uses},
          {"end_of_generation", v->end_of_generation}};
}

std::string keys_text(const GgufFile& file) {
  Table table({"key", "type", "value"});
  for (const GgufKey& key : file.keys())
    table.add({without_controls(key.key), type_text(key.value), value_text(file, key.value)});
  return table.text(stdout);
}

std::string tensors_text(const GgufFile& file) {
  Table table({"tensor", "type", ">shape", ">bytes"});
  for (const TensorView& tensor : file.tensors())
    table.add({without_controls(tensor.name), std::string(name(tensor.dtype)), tensor.shape_string(),
               std::to_string(tensor.bytes)});
  return table.text(stdout);
}

Json tensors_json(const GgufFile& file) {
  Json tensors = Json::array();
  for (const TensorView& tensor : file.tensors())
    tensors.push_back({{"name", tensor.name},
                       {"type", name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes},
                       {"shard", tensor.shard}});
  return tensors;
}

Json limits_json(const Roofline& limits, unsigned threads) {
  return {{"threads", threads},
          {"read_gbytes_per_second", limits.read_gbytes},
          {"int8_gmac_per_second", limits.int8_gmacs},
          {"float32_gmac_per_second", limits.float_gmacs},
          {"bfloat16_gmac_per_second", limits.bf16_gmacs},
          {"int8_matrix_gmac_per_second", limits.matrix_gmacs}};
}

Json cpu_json(bool measure) {
  const MachineInfo machine = this_machine();
  Json available = Json::array(), caches = Json::array();
  for (const KernelSet* set : available_kernels()) available.push_back(set->isa);
  for (const CacheInfo& cache : machine.caches)
    caches.push_back({{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}});
  Json json = {
      {"available", available},         {"used", kernels_in_use().isa},        {"model", machine.cpu},
      {"cores", machine.cores},         {"processors", machine.processors},    {"caches", caches},
      {"memory_bytes", machine.memory}, {"available_bytes", machine.available}};
  if (measure) json["limits"] = limits_json(measure_roofline(kernels_in_use(), machine.cores), machine.cores);
  return json;
}

std::string cpu_text(bool measure) {
  const MachineInfo machine = this_machine();
  std::string caches;
  for (const CacheInfo& cache : machine.caches)
    caches += (caches.empty() ? "" : ", ") + std::string("L") + std::to_string(cache.level) +
              (cache.type == "Unified" ? "" : " " + cache.type) + " " + human_bytes(cache.bytes);
  std::string text = machine.cpu + "\n" + counted(machine.cores, "physical core") + ", " +
                     counted(machine.processors, "logical processor") +
                     "\ncaches: " + (caches.empty() ? "not known" : caches) +
                     "\nmemory: " + human_bytes(machine.memory) + ", available " +
                     human_bytes(machine.available) + "\ninstruction sets: " + available_kernel_names() +
                     "\nin use: " + std::string(kernels_in_use().isa) + "\n";
  if (!measure) return text;
  return text + "with " + counted(machine.cores, "thread") + ": " +
         roofline_text(measure_roofline(kernels_in_use(), machine.cores)) + "\n";
}

/// The chat template as it stands in the file.
std::string template_text(const GgufFile& file) {
  const GgufValue* value = file.find("tokenizer.chat_template");
  if (value == nullptr || value->type != GgufType::String)
    throw file.error("holds no chat template (key tokenizer.chat_template)");
  return metadata_json(file, *value).get<std::string>();
}

Json check_json(const std::vector<TensorValues>& all) {
  Json list = Json::array();
  for (const TensorValues& tensor : all)
    if (!tensor.good())
      list.push_back({{"name", tensor.name},
                      {"nans", tensor.nans},
                      {"infinities", tensor.infinities},
                      {"first", tensor.missing ? Json() : Json(tensor.first_bad)},
                      {"missing", tensor.missing}});
  return list;
}

Json statistics_json(const std::vector<TensorValues>& all) {
  Json list = Json::array();
  for (const TensorValues& tensor : all)
    list.push_back({{"name", tensor.name},
                    {"type", name(tensor.dtype)},
                    {"values", tensor.values},
                    {"zeros", tensor.zeros},
                    {"min", tensor.min},
                    {"max", tensor.max},
                    {"mean", tensor.mean},
                    {"rms", tensor.rms}});
  return list;
}

std::string check_text(const std::vector<TensorValues>& all) {
  Table table({"tensor", "type", ">min", ">max", ">mean", ">rms", ">zeros"});
  std::string bad;
  std::size_t good = 0;
  for (const TensorValues& tensor : all) {
    if (!tensor.missing)
      table.add(
          {without_controls(tensor.name), std::string(name(tensor.dtype)), significant(tensor.min),
           significant(tensor.max), significant(tensor.mean), significant(tensor.rms),
           fixed(100 * static_cast<double>(tensor.zeros) / static_cast<double>(tensor.values), 2) + " %"});
    if (tensor.good()) {
      ++good;
      continue;
    }
    bad += without_controls(tensor.name) + ": ";
    bad += tensor.missing ? std::string("the file ends before its data")
                          : std::to_string(tensor.nans) + " NaN, " + std::to_string(tensor.infinities) +
                                " infinite, the first at value " + std::to_string(tensor.first_bad);
    bad += "\n";
  }
  return table.text(stdout) + "\n" + bad + std::to_string(good) + " of " + counted(all.size(), "tensor") +
         (good == 1 ? " holds" : " hold") + " finite numbers\n";
}

/// The nodes of the graph that would run here. Needs metadata and tensor shapes only.
std::string graph_text(const GgufFile& file) {
  return build_graph(file, read_config(file), kernels_in_use()).graph.to_string();
}

/// What is printed in the end.
struct Report {
  std::string text;
  Json json = Json::object();
  std::optional<GgufFile> file;  ///< whose keys stand for kMetadata in the JSON
};

constexpr const char* kMetadata = "metadata";

/// Of arrays only the element that is being written is in memory: they may be as large as the file.
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
    if (key == kMetadata) {
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
  const auto missing = std::count_if(file.tensors().begin(), file.tensors().end(),
                                     [](const TensorView& tensor) { return tensor.data == nullptr; });
  if (missing > 0)
    print_warning(file.path() + ": the file ends before the data of " + std::to_string(missing) + " of " +
                  counted(file.tensors().size(), "tensor"));
}

int inspect_file(const InspectOptions& options, Report& report) {
  const std::string path = options.file.empty() ? find_model(options.model) : options.file;
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
      all || options.kv, kMetadata, [] { return Json(); }, [&] { return keys_text(file); });
  add(
      all || options.vocabulary, "tokenizer", [&] { return tokenizer_json(file); },
      [&] { return tokenizer_text(file); });
  add(
      options.chat_template, "template", [&] { return Json(template_text(file)); },
      [&] {
        const std::string whole = template_text(file);
        return whole.ends_with('\n') ? whole : whole + "\n";
      });
  add(
      all || options.tensors, "tensors", [&] { return tensors_json(file); },
      [&] { return tensors_text(file); });
  add(
      options.graph, "graph", [&] { return Json(graph_text(file)); }, [&] { return graph_text(file); });
  if (!options.check) return 0;
  const std::vector<TensorValues> values = check_values(file);
  add(
      true, "check", [&] { return check_json(values); }, [&] { return check_text(values); });
  if (options.json) json["statistics"] = statistics_json(values);
  return std::ranges::all_of(values, &TensorValues::good) ? 0 : 1;
}

/// Exit codes as diff's: 0 equal, 1 different.
int inspect_difference(const InspectOptions& options, Report& report) {
  const std::string path = options.file.empty() ? find_model(options.model) : options.file;
  const GgufFile a = GgufFile::open(path, {.metadata_only = true});
  const GgufFile b = GgufFile::open(options.other, {.metadata_only = true});
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
  else if (!options.cpu || options.names_file || options.names_parts())  // else the machine alone
    code = inspect_file(options, report);
  if (options.json)
    write_json(report);
  else if (options.chat_template)
    write_stdout(for_stream(stdout, report.text));  // no lines broken
  else
    write_text(report.text);
  flush_stdout();
  return code;
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a model file holds, or what this machine can do");
  auto options = std::make_shared<InspectOptions>();
  CLI::Option* file = command->add_option("FILE", options->file, "GGUF file (default: as -m)");
  add_model_option(*command, options->model);
  command->get_option("--model")->excludes(file);
  command->add_flag("--kv", options->kv, "show only the metadata");
  command->add_flag("--tokenizer", options->vocabulary,
                    "show only the tokenizer: its kind, special tokens, the tokens that end an answer");
  command->add_flag("--template", options->chat_template,
                    "show only the chat template, as it is in the file");
  command->add_flag("--tensors", options->tensors, "show only the tensors");
  command->add_flag("--graph", options->graph, "show the compute graph, node by node");
  command->add_flag("--check", options->check,
                    "check every value for NaN and infinity (exit code 1 if there are any), and show "
                    "statistics of each tensor");
  command
      ->add_option(
          "--diff", options->other,
          "compare with this file: keys, tensors' types and shapes, values; exit code 1 if they differ")
      ->type_name("FILE");
  for (const char* const part : {"--kv", "--tokenizer", "--template", "--tensors", "--graph", "--check"})
    command->get_option("--diff")->excludes(part);
  command->add_flag("--cpu", options->cpu,
                    "show this machine: processor, caches, memory, instruction sets ($CRIA_ISA forces one)");
  command
      ->add_flag("--measure", options->measure,
                 "with --cpu: also measure its read rate and peak arithmetic rates (takes some seconds)")
      ->needs("--cpu");
  command->add_flag("--json", options->json, "print everything as a JSON object, with complete arrays");
  command->footer(
      "Examples:\n"
      "  cria inspect model.gguf\n"
      "  cria inspect model.gguf --json --kv\n"
      "  cria inspect model-F16.gguf --diff model-Q4_K_M.gguf\n"
      "  cria inspect --cpu");
  on_run(command, [command, options] {
    options->names_file = !options->file.empty() || is_typed(*command->get_option("--model"));
    return run(*options);
  });
}

}  // namespace cria::tools
