#include "tools/report/file_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/sample/options.h"
#include "model/plural.h"
#include "tools/report/metadata_json.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

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

nlohmann::ordered_json summary_json(const GgufFile& file) {
  const FileSummary summary(file);
  nlohmann::ordered_json types = nlohmann::ordered_json::object();
  for (const auto& [type, of] : summary.types) types[std::string(type)] = of.tensors;
  return {{"architecture", string_or_empty(file, "general.architecture")},
          {"name", string_or_empty(file, "general.name")},
          {"parameters", summary.parameters},
          {"bits_per_weight", summary.bits_per_weight()},
          {"tensor_bytes", summary.bytes},
          {"types", types},
          {"sampling", sampling_in_force(file)}};
}

std::string summary_text(const GgufFile& file) {
  const FileSummary summary(file);
  std::string types;
  for (const auto& [type, of] : summary.types)
    types += (types.empty() ? "" : ", ") + std::to_string(of.tensors) + " × " + std::string(type);
  const std::string title = string_or_empty(file, "general.name"),
                    arch = string_or_empty(file, "general.architecture");
  return without_controls(file.path()) + ": GGUF version " + std::to_string(file.version()) + ", " +
         human_bytes(file.file_bytes()) +
         (file.shard_count() > 1 ? " in " + counted(file.shard_count(), "file") : "") + "\n" +
         without_controls((title.empty() ? "unnamed" : title) + ", architecture " +
                          (arch.empty() ? "not stated" : arch)) +
         "\n" + human_count(summary.parameters) + " parameters, " +
         fixed(summary.bits_per_weight(), 2) +
         " bits per weight; tensors: " + (types.empty() ? "none" : types) +
         "\nsampling: " + sampling_in_force(file) + "\n";
}

}  // namespace cria::tools
