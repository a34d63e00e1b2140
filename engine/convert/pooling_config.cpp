// The pooling of a directory of the sentence-transformers library: 1_Pooling/config.json.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/convert/hf_config.h"
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

void require_no_projections(const std::string& directory) {
  namespace fs = std::filesystem;
  for (const char* name : {"2_Dense", "3_Dense"})
    if (fs::exists(fs::path(directory) / name))
      throw Error(directory, std::string("a projection of vectors (") + name +
                                 ") cannot be converted: vectors would be wrong without it");
}

}  // namespace cria
