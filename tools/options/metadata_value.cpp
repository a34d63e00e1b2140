#include "tools/options/metadata_value.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "model/limits.h"

namespace cria::tools {
namespace {

/// What is wrong with a value; the option is named where it is known.
struct Refusal {
  std::string message;
};

[[noreturn]] void refuse(std::string_view expected, std::string_view got) {
  throw Refusal{"expected " + std::string(expected) + ", got " + printable(got.substr(0, 80))};
}

std::optional<GgufType> find_scalar(std::string_view wanted) {
  for (auto id = static_cast<unsigned>(GgufType::U8); id <= static_cast<unsigned>(GgufType::F64);
       ++id) {
    const auto type = static_cast<GgufType>(id);
    if (name(type) == wanted && type != GgufType::Array) return type;
  }
  return std::nullopt;
}

template <class T>
GgufData parse_number(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  bool good = error == std::errc() && rest == end;
  if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(number);
  if (!good) refuse("a value of type " + std::string(name(GgufData(T()).type())), text);
  return number;
}

GgufData parse_scalar(GgufType type, std::string_view text) {
  switch (type) {
    case GgufType::U8:
      return parse_number<std::uint8_t>(text);
    case GgufType::I8:
      return parse_number<std::int8_t>(text);
    case GgufType::U16:
      return parse_number<std::uint16_t>(text);
    case GgufType::I16:
      return parse_number<std::int16_t>(text);
    case GgufType::U32:
      return parse_number<std::uint32_t>(text);
    case GgufType::I32:
      return parse_number<std::int32_t>(text);
    case GgufType::U64:
      return parse_number<std::uint64_t>(text);
    case GgufType::I64:
      return parse_number<std::int64_t>(text);
    case GgufType::F32:
      return parse_number<float>(text);
    case GgufType::F64:
      return parse_number<double>(text);
    case GgufType::Bool:
      if (text != "true" && text != "false") refuse("true or false", text);
      return text == "true";
    default:
      return std::string(text);
  }
}

/// depth: how many arrays are around the scalars.
GgufData parse_json(GgufType scalar, int depth, const nlohmann::json& json) {
  if (depth == 0) {
    const bool fits = scalar == GgufType::String ? json.is_string()
                      : scalar == GgufType::Bool ? json.is_boolean()
                                                 : json.is_number();
    if (!fits) refuse("elements of type " + std::string(name(scalar)), json.dump());
    return parse_scalar(scalar, json.is_string() ? json.get<std::string>() : json.dump());
  }
  if (!json.is_array()) refuse("a JSON array", json.dump());
  GgufArray array{.element = depth > 1 ? GgufType::Array : scalar, .values = {}};
  for (const nlohmann::json& element : json)
    array.values.push_back(parse_json(scalar, depth - 1, element));
  return array;
}

GgufData parse_array(GgufType scalar, int depth, const std::string& text) {
  try {
    return parse_json(scalar, depth, nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception&) {  // no JSON, text that is not UTF-8, or a number
                                                // beyond all types
    refuse("a JSON array", text);
  }
}

std::pair<std::string, GgufData> parse(const std::string& text) {
  const std::size_t equals = text.find('='), colon = text.find(':', equals);
  if (equals == 0 || equals == std::string::npos || colon == std::string::npos)
    refuse("KEY=TYPE:VALUE", text);
  std::string_view type(text.data() + equals + 1, colon - equals - 1);
  int depth = 0;
  for (; type.ends_with("[]"); type.remove_suffix(2)) ++depth;
  const auto scalar = find_scalar(type);
  if (!scalar || depth > limits::kArrayDepth)
    refuse(
        "a type (u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string, and [] behind it for an array)",
        std::string_view(text).substr(equals + 1, colon - equals - 1));
  const std::string value = text.substr(colon + 1);
  return {text.substr(0, equals),
          depth == 0 ? parse_scalar(*scalar, value) : parse_array(*scalar, depth, value)};
}

}  // namespace

std::pair<std::string, GgufData> parse_metadata(const std::string& option,
                                                const std::string& text) {
  try {
    return parse(text);
  } catch (const Refusal& refusal) {
    throw CLI::ValidationError(option, refusal.message);
  }
}

}  // namespace cria::tools
