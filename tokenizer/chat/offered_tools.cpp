#include "tokenizer/chat/offered_tools.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace cria {
namespace {

using ToolsJson = nlohmann::ordered_json;

/// Returns the member of an object, or null.
const ToolsJson* member(const ToolsJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

/// Returns the definition that "#/$defs/Name" points to, or null.
const ToolsJson* definition(const ToolsJson& root, std::string path) {
  if (!path.starts_with('#')) return nullptr;
  try {
    return &root.at(ToolsJson::json_pointer(path.erase(0, 1)));
  } catch (const ToolsJson::exception&) {
    return nullptr;
  }
}

std::string type_of(const ToolsJson& value) {
  return value.is_number_integer() || value.is_number_unsigned() ? "integer" : value.type_name();
}

/// Adds the types that a schema allows: of "type", "const" and "enum", of what "$ref" points to,
/// and of the parts of "allOf", "anyOf" and "oneOf". `left` limits the schemas it visits.
void add_types(const ToolsJson& root, const ToolsJson& schema, int& left,
               std::vector<std::string>& types) {
  if (!schema.is_object() || --left < 0) return;
  for (const auto& [key, value] : schema.items()) {
    if (key == "type" && value.is_string()) types.push_back(value.get<std::string>());
    if (key == "type" && value.is_array())
      for (const ToolsJson& name : value)
        if (name.is_string()) types.push_back(name.get<std::string>());
    if (key == "const") types.push_back(type_of(value));
    if (key == "enum" && value.is_array())
      for (const ToolsJson& one : value) types.push_back(type_of(one));
    if (key == "$ref" && value.is_string())
      if (const ToolsJson* const target = definition(root, value.get<std::string>()))
        add_types(root, *target, left, types);
    if ((key == "allOf" || key == "anyOf" || key == "oneOf") && value.is_array())
      for (const ToolsJson& part : value) add_types(root, part, left, types);
  }
}

std::vector<std::string> types_of(const ToolsJson& root, const ToolsJson& schema) {
  std::vector<std::string> types;
  int left = 100;
  add_types(root, schema, left, types);
  return types;
}

}  // namespace

const std::vector<std::string>& OfferedTools::types(std::string_view tool,
                                                    std::string_view argument) {
  static const std::vector<std::string> kNone;
  if (!json_.empty()) read();
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return kNone;
  const auto types = found->second.find(argument);
  return types == found->second.end() ? kNone : types->second;
}

bool OfferedTools::may_call(std::string_view tool) {
  if (!json_.empty()) read();
  return names_.empty() || names_.contains(tool);
}

// If tools share a name, the first with properties counts.
void OfferedTools::read() {
  const ToolsJson tools = ToolsJson::parse(std::exchange(json_, {}), nullptr, false);
  if (!tools.is_array()) return;
  for (const ToolsJson& one : tools) {
    const ToolsJson* const inner = member(one, "function");
    const ToolsJson& function = inner == nullptr ? one : *inner;
    const ToolsJson* const name = member(function, "name");
    if (name == nullptr || !name->is_string()) continue;
    names_.insert(name->get<std::string>());
    const ToolsJson* const parameters = member(function, "parameters");
    const ToolsJson* const properties =
        parameters == nullptr ? nullptr : member(*parameters, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    const auto [tool, is_new] = tools_.try_emplace(name->get<std::string>());
    if (!is_new) continue;
    for (const auto& [argument, schema] : properties->items())
      tool->second.emplace(argument, types_of(*parameters, schema));
  }
}

}  // namespace cria
