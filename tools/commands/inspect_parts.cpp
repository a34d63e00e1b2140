#include "tools/commands/inspect_parts.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "engine/architectures/architecture.h"
#include "engine/execute/kv_pool.h"
#include "engine/execute/machine.h"
#include "engine/quantize/plan.h"
#include "engine/sample/options.h"
#include "engine/vectors.h"
#include "model/config.h"
#include "model/plural.h"
#include "model/vocabulary.h"
#include "tokenizer/chat/chat_template.h"
#include "tools/cli/flag.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

/// A string value, or "" if the key is missing or has another type.
std::string string_or_empty(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  if (value == nullptr || value->type != GgufType::String) return "";
  return metadata_json(file, *value).get<std::string>();
}

/// The sampling options in force without flags.
std::string sampling_in_force(const GgufFile& file) {
  SamplerOptions options;
  try {
    set_sampling_defaults(file, options);
  } catch (const Error& error) {
    return "refused: " + without_controls(error.what());
  }
  return sampling_text(options, file);
}

}  // namespace

FileSummary::FileSummary(const GgufFile& file) {
  for (const TensorView& tensor : file.tensors()) {
    parameters += tensor.cols() * tensor.rows();
    bytes += tensor.bytes;
    OfType& type = types[name(tensor.dtype)];
    ++type.tensors;
    type.bytes += tensor.bytes;
  }
}

double FileSummary::bits_per_weight() const {
  return parameters == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
}

std::string_view FileSummary::largest_type() const {
  const auto largest =
      std::ranges::max_element(types, {}, [](const auto& entry) { return entry.second.bytes; });
  return largest == types.end() ? std::string_view() : largest->first;
}

namespace {

/// "mean"; "" if the file says nothing.
std::string file_pooling(const GgufFile& file) {
  const std::string key = string_or_empty(file, "general.architecture") + ".pooling_type";
  const GgufValue* const value = file.find(key);
  if (value == nullptr || value->type != GgufType::U32) return "";
  const auto type = file.find_uint(key);
  return type && *type <= static_cast<std::uint64_t>(Pooling::Rank)
             ? std::string(name(static_cast<Pooling>(*type)))
             : "";
}

/// The vocabulary; nullopt if the file has none that can be read.
std::optional<Vocabulary> find_vocabulary(const GgufFile& file, bool warns) {
  if (file.find("tokenizer.ggml.tokens") == nullptr) return std::nullopt;
  try {
    return Vocabulary::from_gguf(file);
  } catch (const Error& error) {
    if (warns) print_warning(error.what());
    return std::nullopt;
  }
}

/// The file's number of its quantization, if it is one.
std::optional<std::uint64_t> find_file_type(const GgufFile& file) {
  try {
    return file.find_uint("general.file_type");
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The quantization by the file's own number, else the type with the most bytes.
std::string quantization(const GgufFile& file, const FileSummary& summary) {
  if (const auto number = find_file_type(file))
    for (const Mix& mix : mixes())
      if (mix.file_type == *number) return std::string(mix.name);
  return std::string(summary.largest_type());
}

/// "chat", "tools", "thinking": what the chat template can do.
std::vector<std::string> capabilities(const GgufFile& file) {
  const auto vocabulary = find_vocabulary(file, false);
  if (!vocabulary || vocabulary->chat_template.empty()) return {"completion"};
  std::vector<std::string> all = {"completion", "chat"};
  try {
    const ChatTemplate chat = ChatTemplate::from_vocabulary(*vocabulary);
    if (chat.names("tools") || !vocabulary->tool_template.empty()) all.emplace_back("tools");
    if (chat.answer_format().thinks()) all.emplace_back("thinking");
  } catch (const Error&) {
    all.back() = "a chat template that cannot be read";
  }
  return all;
}

/// The context for which commands reserve memory without -c, and the KV cache of it.
struct ContextNeed {
  std::size_t trained = 0, usual = 0, kv_bytes = 0;
};

/// nullopt if the file's model cannot run here.
std::optional<ContextNeed> context_need(const GgufFile& file) {
  try {
    const ModelConfig config = read_config(file);
    ContextNeed need{config.n_ctx_train, std::min<std::size_t>(config.n_ctx_train, 4096), 0};
    const Graph graph = build_graph(file, config, kernels_in_use()).graph;
    need.kv_bytes = KvPool::bytes(graph, {.type = KvType::F16,
                                          .n_ctx = need.usual,
                                          .n_batch = std::min<std::size_t>(need.usual, 512),
                                          .positions = need.usual});
    return need;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Json summary_json(const GgufFile& file) {
  const FileSummary summary(file);
  Json types = Json::object();
  for (const auto& [type, of] : summary.types) types[std::string(type)] = of.tensors;
  Json json = {{"architecture", string_or_empty(file, "general.architecture")},
               {"name", string_or_empty(file, "general.name")},
               {"license", string_or_empty(file, "general.license")},
               {"parameters", summary.parameters},
               {"quantization", quantization(file, summary)},
               {"bits_per_weight", summary.bits_per_weight()},
               {"tensor_bytes", summary.bytes},
               {"types", types},
               {"capabilities", capabilities(file)},
               {"sampling", sampling_in_force(file)}};
  if (const auto need = context_need(file)) {
    json["context_length"] = need->trained;
    json["default_context"] = need->usual;
    json["kv_bytes"] = need->kv_bytes;
  }
  if (const std::string pooling = file_pooling(file); !pooling.empty()) json["pooling"] = pooling;
  return json;
}

std::string summary_text(const GgufFile& file) {
  const FileSummary summary(file);
  std::string types;
  for (const auto& [type, of] : summary.types)
    types += (types.empty() ? "" : ", ") + std::to_string(of.tensors) + " × " + std::string(type);
  const std::string title = string_or_empty(file, "general.name"),
                    arch = string_or_empty(file, "general.architecture"),
                    license = string_or_empty(file, "general.license");
  std::string text =
      without_controls(file.path()) + ": GGUF version " + std::to_string(file.version()) + ", " +
      human_bytes(file.file_bytes()) +
      (file.shard_count() > 1 ? " in " + counted(file.shard_count(), "file") : "") + "\n" +
      without_controls((title.empty() ? "unnamed" : title) + ", architecture " +
                       (arch.empty() ? "not stated" : arch) +
                       (license.empty() ? "" : ", license " + license)) +
      "\n" + human_count(summary.parameters) + " parameters, " +
      fixed(summary.bits_per_weight(), 2) + " bits per weight; quantization " +
      quantization(file, summary) + "\ntensors: " + (types.empty() ? "none" : types) + "\n";
  if (const auto need = context_need(file))
    text += "context: " + counted(need->trained, "token") + "; with -c " +
            std::to_string(need->usual) +
            " (the default): " + human_bytes(summary.bytes + need->kv_bytes) + " of memory, " +
            human_bytes(need->kv_bytes) + " of it for the KV cache\n";
  return text + "capabilities: " + joined(capabilities(file)) +
         (file_pooling(file).empty() ? "" : "\nvectors: pooling " + file_pooling(file)) +
         "\nsampling: " + sampling_in_force(file) + "\n";
}

namespace {

std::string type_text(const GgufValue& value) {
  if (value.type != GgufType::Array) return std::string(name(value.type));
  return std::string(name(value.element)) + "[" + std::to_string(value.count) + "]";
}

/// On one line: at most 8 elements; on a terminal at most 72 bytes.
std::string value_text(const GgufFile& file, const GgufValue& value) {
  constexpr std::size_t kElements = 8, kBytes = 72;
  std::string text =
      metadata_json(file, value, kElements).dump(-1, ' ', false, Json::error_handler_t::replace);
  bool cut = value.type == GgufType::Array && value.count > kElements;
  if (cut) text.pop_back();  // the closing bracket
  if (text.size() > kBytes && is_terminal(stdout)) {
    std::size_t end = kBytes;
    while ((text[end] & 0xC0) == 0x80) --end;
    text.resize(end);
    cut = true;
  }
  return cut ? text + " …" : text;
}

}  // namespace

std::string keys_text(const GgufFile& file) {
  Table table({"key", "type", "value"});
  for (const GgufKey& key : file.keys())
    table.add({without_controls(key.key), type_text(key.value), value_text(file, key.value)});
  return table.text(stdout);
}

std::string tensors_text(const GgufFile& file) {
  Table table({"tensor", "type", ">shape", ">bytes"});
  for (const TensorView& tensor : file.tensors())
    table.add({without_controls(tensor.name), std::string(name(tensor.dtype)),
               tensor.shape_string(), std::to_string(tensor.bytes)});
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

std::string template_text(const GgufFile& file) {
  const GgufValue* value = file.find("tokenizer.chat_template");
  if (value == nullptr || value->type != GgufType::String)
    throw file.error("holds no chat template (key tokenizer.chat_template)");
  return metadata_json(file, *value).get<std::string>();
}

namespace {

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

}  // namespace

std::string tokenizer_text(const GgufFile& file) {
  const auto v = find_vocabulary(file, true);
  if (!v) return "no vocabulary\n";
  std::string text = "tokenizer " + without_controls(v->model) +
                     (v->pre.empty() ? "" : ", pre-tokenizer " + without_controls(v->pre)) + ", " +
                     counted(v->tokens.size(), "token") +
                     (v->merges.empty() ? "" : ", " + counted(v->merges.size(), "merge")) +
                     (v->add_bos ? ", BOS added" : "") + (v->add_eos ? ", EOS added" : "") + "\n";
  Table table({"use", ">id", "token"});
  for (const auto& [use, id] : token_uses(*v))
    table.add({use, std::to_string(id),
               without_controls(std::string(v->tokens[static_cast<std::size_t>(id)]))});
  return text + table.text(stdout);
}

Json tokenizer_json(const GgufFile& file) {
  const auto v = find_vocabulary(file, true);
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

namespace {

std::string short_value(const GgufFile& file, const GgufValue& value) {
  constexpr std::uint64_t kElements = 4;
  constexpr std::size_t kBytes = 48;
  std::string text =
      metadata_json(file, value, kElements).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value.type == GgufType::Array) text += " of " + std::to_string(value.count);
  if (text.size() > kBytes) {
    std::size_t end = kBytes;
    while ((text[end] & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + " …";
  }
  return text;
}

// Numbers are equal in bytes and type; strings of one length are compared as bytes.
bool same_value(const GgufValue& a, const GgufValue& b) {
  return a.type == b.type && (a.type != GgufType::Array || a.element == b.element) &&
         a.count == b.count && a.bytes == b.bytes && std::memcmp(a.data, b.data, a.bytes) == 0;
}

void compare_keys(const GgufFile& a, const GgufFile& b, FileDifference& out) {
  for (const GgufKey& key : a.keys()) {
    const GgufValue* other = b.find(key.key);
    if (other == nullptr)
      out.keys.push_back({std::string(key.key), "only in A: " + short_value(a, key.value)});
    else if (!same_value(key.value, *other))
      out.keys.push_back(
          {std::string(key.key), short_value(a, key.value) + " / " + short_value(b, *other)});
  }
  for (const GgufKey& key : b.keys()) {
    if (a.find(key.key) == nullptr)
      out.keys.push_back({std::string(key.key), "only in B: " + short_value(b, key.value)});
  }
}

void compare_tensor(const TensorView& a, const TensorView& b, FileDifference& out) {
  const std::string name(a.name);
  if (a.shape != b.shape) {
    out.tensors.push_back({name, "shape " + a.shape_string() + " / " + b.shape_string()});
    return;
  }
  if (a.dtype != b.dtype)
    out.tensors.push_back({name, "type " + std::string(cria::name(a.dtype)) + " / " +
                                     std::string(cria::name(b.dtype))});
  if (a.data == nullptr || b.data == nullptr) {
    out.tensors.push_back(
        {name, std::string("the data is missing in ") + (a.data == nullptr ? "A" : "B")});
    return;
  }
  ++out.compared_tensors;
  if (a.dtype == b.dtype && std::memcmp(a.data, b.data, a.bytes) == 0) return;
  const ValueDifference difference = compare_values(a, b);
  if (difference.different > 0)
    out.values.push_back({name, difference});
  else if (a.dtype == b.dtype)
    out.tensors.push_back({name, "other bytes, the same values"});
}

/// Adds a column for NaN and infinity if there are any; the other figures leave them out.
Table values_table(const FileDifference& difference) {
  const bool finite = std::ranges::all_of(
      difference.values, [](const auto& tensor) { return tensor.difference.not_finite == 0; });
  std::vector<std::string> headings = {"values of", ">differ", ">of", ">largest difference",
                                       ">RMSE"};
  if (!finite) headings.emplace_back(">NaN, infinite");
  Table table(std::move(headings));
  for (const auto& [name, values] : difference.values) {
    std::vector<std::string> row = {without_controls(name), std::to_string(values.different),
                                    std::to_string(values.values), significant(values.largest),
                                    significant(values.rmse)};
    if (!finite) row.push_back(std::to_string(values.not_finite));
    table.add(std::move(row));
  }
  return table;
}

}  // namespace

FileDifference compare_files(const GgufFile& a, const GgufFile& b) {
  FileDifference difference;
  compare_keys(a, b, difference);
  Progress progress("comparing", "bytes", a.file_bytes());
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : a.tensors()) {
    if (const TensorView* other = b.tensor(tensor.name); other == nullptr)
      difference.tensors.push_back({std::string(tensor.name), "only in A"});
    else
      compare_tensor(tensor, *other, difference);
    bytes += tensor.bytes;
    progress.update(bytes);
  }
  for (const TensorView& tensor : b.tensors()) {
    if (a.tensor(tensor.name) == nullptr)
      difference.tensors.push_back({std::string(tensor.name), "only in B"});
  }
  return difference;
}

std::string difference_text(const FileDifference& difference, const std::string& a,
                            const std::string& b) {
  if (difference.none())
    return "no difference: the same keys, and " + counted(difference.compared_tensors, "tensor") +
           " of the same types and values\n";
  std::string text = "A: " + without_controls(a) + "\nB: " + without_controls(b) + "\n";
  const auto add_items = [&](const char* heading, const std::vector<FileDifference::Item>& items) {
    if (items.empty()) return;
    Table table({heading, "A / B"});
    for (const auto& [name, what] : items)
      table.add({without_controls(name), without_controls(what)});
    text += "\n" + table.text(stdout);
  };
  add_items("key", difference.keys);
  add_items("tensor", difference.tensors);
  if (!difference.values.empty()) text += "\n" + values_table(difference).text(stdout);
  const auto differ = [](std::size_t n, const std::string& what) {
    return counted(n, what) + (n == 1 ? " differs" : " differ");
  };
  return text + "\n" + differ(difference.keys.size(), "key") + ", " +
         differ(difference.tensors.size(), "tensor") + " in type, shape or presence; of the " +
         std::to_string(difference.compared_tensors) + " compared, " +
         std::to_string(difference.values.size()) +
         (difference.values.size() == 1 ? " differs" : " differ") + " in value\n";
}

Json difference_json(const FileDifference& difference) {
  const auto items = [](const std::vector<FileDifference::Item>& list) {
    auto array = Json::array();
    for (const auto& [name, what] : list) array.push_back({{"name", name}, {"difference", what}});
    return array;
  };
  auto values = Json::array();
  for (const auto& [name, figures] : difference.values)
    values.push_back({{"name", name},
                      {"values", figures.values},
                      {"different", figures.different},
                      {"not_finite", figures.not_finite},
                      {"largest", figures.largest},
                      {"rmse", figures.rmse}});
  return {{"equal", difference.none()},
          {"keys", items(difference.keys)},
          {"tensors", items(difference.tensors)},
          {"compared_tensors", difference.compared_tensors},
          {"different_tensors", difference.values.size()},
          {"values", values}};
}

}  // namespace cria::tools
