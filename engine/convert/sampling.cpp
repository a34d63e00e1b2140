#include "engine/convert/sampling.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/sample/defaults.h"
#include "model/error.h"
#include "model/file/json.h"

namespace cria {

void set_sampling(GgufWriter& writer, const std::string& directory, std::vector<std::string>& warnings) {
  namespace fs = std::filesystem;
  const std::string path = (fs::path(directory) / "generation_config.json").string();
  if (!fs::exists(path)) return;
  const nlohmann::json json = read_json(path);
  if (!json.is_object()) return;  // the vocabulary's reader has said so
  const auto sample = json.find("do_sample");
  if (sample != json.end() && sample->is_boolean() && !sample->get<bool>()) return;
  constexpr std::pair<const char*, const char*> kNames[] = {{"temperature", "temp"},
                                                            {"top_k", "top_k"},
                                                            {"top_p", "top_p"},
                                                            {"min_p", "min_p"},
                                                            {"repetition_penalty", "penalty_repeat"}};
  for (const auto& [name, key] : kNames) {
    const auto found = json.find(name);
    if (found == json.end() || found->is_null()) continue;
    try {
      if (!found->is_number()) throw Error("", std::string("expected a number, got ") + found->type_name());
      writer.set(std::string("general.sampling.") + key, sampling_value(key, found->get<double>()));
    } catch (const Error& error) {
      warnings.push_back(path + ": \"" + name + "\" is left out: " + error.what());
    }
  }
}

}  // namespace cria
