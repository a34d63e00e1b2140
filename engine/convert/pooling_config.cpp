// Directories of the sentence-transformers library: the pooling (1_Pooling/config.json) and
// projections of vectors (2_Dense, 3_Dense).
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/convert/hf_config.h"
#include "engine/convert/json_keys.h"
#include "engine/vectors.h"
#include "model/error.h"
#include "model/file/json.h"
#include "model/gguf/writer.h"

namespace cria {

void set_pooling(GgufWriter& writer, const std::string& directory, std::string_view arch) {
  namespace fs = std::filesystem;
  const std::string path = (fs::path(directory) / "1_Pooling" / "config.json").string();
  if (!fs::exists(path)) return;
  const nlohmann::json json = read_json(path);
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
  namespace fs = std::filesystem;
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
    const nlohmann::json json = read_json(config);
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
