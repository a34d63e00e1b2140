#include "engine/convert/sampling.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/sample/defaults.h"
#include "model/error.h"
#include "model/file/json.h"
#include "model/hf/config.h"

namespace cria {
namespace {

constexpr std::pair<const char*, const char*> kNames[] = {{"temperature", "temp"},
                                                          {"top_k", "top_k"},
                                                          {"top_p", "top_p"},
                                                          {"min_p", "min_p"},
                                                          {"repetition_penalty", "penalty_repeat"}};

std::string key_of(const char* end) { return std::string("general.sampling.") + end; }

}  // namespace

void set_sampling(GgufWriter& writer, const std::string& directory,
                  std::vector<std::string>& warnings) {
  namespace fs = std::filesystem;
  const std::string path = (fs::path(directory) / "generation_config.json").string();
  if (!fs::exists(path)) return;
  const nlohmann::json json = read_json(path);
  if (!json.is_object()) return;  // the vocabulary's reader has said so
  const auto sample = json.find("do_sample"), temperature = json.find("temperature");
  const bool greedy =
      temperature != json.end() && *temperature == 0;  // as with_sampling() writes it
  if (sample != json.end() && sample->is_boolean() && !sample->get<bool>() && !greedy) return;
  for (const auto& [name, key] : kNames) {
    const auto found = json.find(name);
    if (found == json.end() || found->is_null()) continue;
    try {
      if (!found->is_number())
        throw Error("", std::string("expected a number, got ") + found->type_name());
      writer.set(key_of(key), sampling_value(key, found->get<double>()));
    } catch (const Error& error) {
      warnings.push_back(path + ": \"" + name + "\" is left out: " + error.what());
    }
  }
}

std::string with_sampling(const std::string& generation_config, const GgufFile& file) {
  SamplerOptions said;
  set_sampling_defaults(file, said, [](std::string_view end) {
    return std::ranges::any_of(kNames, [end](const auto& entry) { return entry.second == end; });
  });
  using Json = nlohmann::ordered_json;
  const Json values[] = {shortest_decimal(said.temperature), said.top_k,
                         shortest_decimal(said.top_p), shortest_decimal(said.min_p),
                         shortest_decimal(said.repeat_penalty)};
  Json json = Json::parse(generation_config);
  for (std::size_t i = 0; i < std::size(values); ++i) {
    const auto& [name, key] = kNames[i];
    if (file.find(key_of(key)) == nullptr) continue;
    json["do_sample"] = said.temperature > 0;
    json[name] = values[i];
  }
  return json.dump(2) + "\n";
}

}  // namespace cria
