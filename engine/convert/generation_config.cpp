// generation_config.json: sampling options from and to general.sampling.* of GGUF.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/convert/hf_config.h"
#include "engine/sample/options.h"
#include "model/error.h"
#include "model/file/json.h"
#include "model/gguf/writer.h"

namespace cria {
namespace {

std::string key_of(const SamplerOption& option) {
  return "general.sampling." + std::string(option.gguf);
}

}  // namespace

void set_sampling(GgufWriter& writer, const std::string& directory,
                  std::vector<std::string>& warnings) {
  namespace fs = std::filesystem;
  const std::string path = (fs::path(directory) / "generation_config.json").string();
  if (!fs::exists(path)) return;
  const nlohmann::json json = read_json(path);
  if (!json.is_object()) return;  // the vocabulary's reader warns about it
  const auto sample = json.find("do_sample"), temperature = json.find("temperature");
  const bool greedy = temperature != json.end() && *temperature == 0;  // written by with_sampling()
  if (sample != json.end() && sample->is_boolean() && !sample->get<bool>() && !greedy) return;
  for (const SamplerOption& option : kSamplerOptions) {
    const std::string name(option.hf);
    const auto found = json.find(name);
    if (name.empty() || found == json.end() || found->is_null()) continue;
    try {
      if (!found->is_number())
        throw Error("", std::string("expected a number, got ") + found->type_name());
      writer.set(key_of(option), sampling_value(option.gguf, found->get<double>()));
    } catch (const Error& error) {
      warnings.push_back(path + ": \"" + name + "\" is ignored: " + error.what());
    }
  }
}

std::string with_sampling(const std::string& generation_config, const GgufFile& file) {
  SamplerOptions written;
  set_sampling_defaults(file, written,
                        [](const SamplerOption& option) { return !option.hf.empty(); });
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(generation_config);
  for (const SamplerOption& option : kSamplerOptions) {
    if (option.hf.empty() || file.find(key_of(option)) == nullptr) continue;
    json["do_sample"] = written.temperature > 0;
    std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), float SamplerOptions::*>)
            json[std::string(option.hf)] = shortest_decimal(written.*member);
          else if constexpr (std::is_same_v<decltype(member), std::int32_t SamplerOptions::*>)
            json[std::string(option.hf)] = written.*member;
        },
        option.member);
  }
  return json.dump(2) + "\n";
}

}  // namespace cria
