// The files next to config.json: generation_config.json, whose sampling options become
// general.sampling.* of GGUF; pooling (1_Pooling/config.json) and projections of vectors (2_Dense,
// 3_Dense) in directories of the sentence-transformers library.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "engine/convert/hf_config.h"
#include "engine/convert/json_keys.h"
#include "engine/sample/options.h"
#include "engine/vectors.h"
#include "model/error.h"
#include "model/file/json.h"
#include "model/gguf/writer.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

std::string key_of(const SamplerOption& option) {
  return "general.sampling." + std::string(option.gguf);
}

}  // namespace

void set_sampling(GgufWriter& writer, const std::string& directory,
                  std::vector<std::string>& warnings) {
  const std::string path = (fs::path(directory) / "generation_config.json").string();
  if (!fs::exists(path)) return;
  const SortedJson json = read_json(path);
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
  auto json = Json::parse(generation_config);
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

void set_pooling(GgufWriter& writer, const std::string& directory, std::string_view arch) {
  const std::string path = (fs::path(directory) / "1_Pooling" / "config.json").string();
  if (!fs::exists(path)) return;
  const SortedJson json = read_json(path);
  constexpr std::pair<const char*, Pooling> kModes[] = {{"pooling_mode_mean_tokens", Pooling::Mean},
                                                        {"pooling_mode_cls_token", Pooling::First},
                                                        {"pooling_mode_lasttoken", Pooling::Last}};
  std::optional<Pooling> pooling;
  for (const auto& [key, mode] : kModes) {
    if (!json.is_object() || !json.contains(key) || json[key] != true) continue;
    if (pooling)
      throw Error(path, "several kinds of pooling: expected one", std::string("key ") + key);
    pooling = mode;
  }
  if (!pooling)
    throw Error(path, "unknown pooling: expected the mean, the first or the last token");
  writer.set(std::string(arch) + ".pooling_type", static_cast<std::uint32_t>(*pooling));
}

std::vector<HfProjection> projections_of(const std::string& directory, bool allowed) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"2_Dense", "dense_2.weight"},
                                                            {"3_Dense", "dense_3.weight"}};
  std::vector<HfProjection> found;
  for (const auto& [name, gguf] : kNames) {
    const fs::path path = fs::path(directory) / name;
    if (!fs::exists(path)) continue;
    if (!allowed)
      throw Error(directory, std::string("a projection of vectors (") + name +
                                 ") cannot be converted: vectors would be wrong without it");
    const std::string config = (path / "config.json").string();
    const SortedJson json = read_json(config);
    const JsonKeys keys(json, config);
    if (keys.flag_or("bias", false)) keys.fail("bias", "not supported here: expected false");
    const std::string activation = keys.text("activation_function").value_or("Identity");
    if (!activation.ends_with("Identity"))
      keys.fail("activation_function",
                "not supported here: expected Identity, got '" + activation + "'");
    found.push_back({gguf, path.string()});
  }
  return found;
}

}  // namespace cria
