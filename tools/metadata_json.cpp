#include "tools/metadata_json.h"

#include <algorithm>
#include <type_traits>

#include "model/gguf_writer.h"

namespace cria::tools {
namespace {

nlohmann::ordered_json to_json(const GgufData& data) {
  return std::visit(
      [](const auto& value) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, GgufArray>) {
          auto list = nlohmann::ordered_json::array();
          for (const GgufData& element : value.values) list.push_back(to_json(element));
          return list;
        } else {
          return value;
        }
      },
      static_cast<const GgufDataVariant&>(data));
}

}  // namespace

nlohmann::ordered_json metadata_json(const GgufFile& file, const GgufValue& value, std::uint64_t most) {
  GgufValue part = value;
  if (value.type == GgufType::Array) part.count = std::min(value.count, most);
  return to_json(copy_value(file, part));
}

}  // namespace cria::tools
