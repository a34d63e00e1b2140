#include "tools/report/json.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "model/gguf/writer.h"

namespace cria::tools {

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}
std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

namespace {

/// Returns the double with the shortest digits that mean this float: 1e-06, not
/// 9.999999974752427e-07.
double shortest(float value) {
  if (!std::isfinite(value)) return value;
  char digits[32];
  const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double same = value;
  std::from_chars(digits, end, same);
  return same;
}

nlohmann::ordered_json scalar_json(const GgufData& data) {
  return std::visit(
      [](const auto& value) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, GgufArray>)
          return nullptr;  // not a scalar
        else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, float>)
          return shortest(value);
        else
          return value;
      },
      static_cast<const GgufDataVariant&>(data));
}

}  // namespace

nlohmann::ordered_json metadata_json(const GgufFile& file, const GgufValue& value,
                                     std::uint64_t most) {
  if (value.type != GgufType::Array) return scalar_json(copy_value(file, value));
  auto list = nlohmann::ordered_json::array();
  file.visit_elements(
      value, [&](const GgufValue& element) { list.push_back(metadata_json(file, element, most)); },
      most);
  return list;
}

void write_metadata_json(const GgufFile& file, const GgufValue& value, std::size_t indent,
                         const std::function<void(std::string_view)>& put) {
  if (value.type != GgufType::Array)
    return put(scalar_json(copy_value(file, value))
                   .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (value.count == 0) return put("[]");
  const std::string margin(indent, ' ');
  const char* before = "[\n";
  file.visit_elements(value, [&](const GgufValue& element) {
    put(before + margin + " ");
    write_metadata_json(file, element, indent + 1, put);
    before = ",\n";
  });
  put("\n" + margin + "]");
}

}  // namespace cria::tools
