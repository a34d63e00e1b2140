#include "tools/metadata_json.h"

#include <algorithm>
#include <type_traits>

#include "model/gguf_writer.h"

namespace cria::tools {
namespace {

nlohmann::ordered_json scalar_json(const GgufData& data) {
  return std::visit(
      [](const auto& value) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, GgufArray>)
          return nullptr;  // not a scalar
        else
          return value;
      },
      static_cast<const GgufDataVariant&>(data));
}

}  // namespace

nlohmann::ordered_json metadata_json(const GgufFile& file, const GgufValue& value, std::uint64_t most) {
  if (value.type != GgufType::Array) return scalar_json(copy_value(file, value));
  GgufValue part = value;
  part.count = std::min(value.count, most);
  auto list = nlohmann::ordered_json::array();
  for (const GgufValue& element : file.elements(part)) list.push_back(metadata_json(file, element, most));
  return list;
}

}  // namespace cria::tools
