#include "tokenizer/jinja/values/json.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace cria::jinja {
namespace {

Value convert(const nlohmann::ordered_json& json, int depth) {
  if (depth > List::kDeepest) throw Failure("JSON is nested too deeply");
  if (json.is_string()) return Text(json.get_ref<const std::string&>(), false);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw Failure("an integer is too large: more than 64 bits");
  if (json.is_number()) return json.get<std::int64_t>();
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(convert(item, depth + 1));
    return List(std::move(items));
  }
  if (json.is_object()) {
    Dict dict;
    for (const auto& [key, value] : json.items()) dict.set(Text(key, false), convert(value, depth + 1));
    return dict;
  }
  return None{};
}

}  // namespace

Value from_json(const nlohmann::ordered_json& json) { return convert(json, 0); }

Value parse_json(std::string_view text) {
  try {
    return from_json(nlohmann::ordered_json::parse(text));
  } catch (const nlohmann::json::parse_error& error) {
    throw Failure("not JSON (at byte " + std::to_string(error.byte) + ")");
  } catch (const nlohmann::json::exception& error) {  // a number out of range
    throw Failure(std::string("is no JSON that can be read: ") + error.what());
  }
}

nlohmann::ordered_json to_json(const Value& value) {
  if (const Text* text = value.text()) return text->bytes();
  if (value.is_none()) return nullptr;
  if (value.is_bool()) return value.truth();
  if (value.is_float()) return *value.real();
  if (value.integer()) return *value.integer();
  if (const List* list = value.list()) {
    auto out = nlohmann::ordered_json::array();
    for (const Value& item : list->items) out.push_back(to_json(item));
    return out;
  }
  if (const Dict* dict = value.dict()) {
    auto out = nlohmann::ordered_json::object();
    for (const auto& [key, item] : dict->entries()) out[to_text(key).bytes()] = to_json(item);
    return out;
  }
  throw Failure("no JSON for a " + value.type_name());
}

}  // namespace cria::jinja
