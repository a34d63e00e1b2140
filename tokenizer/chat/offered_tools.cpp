#include "tokenizer/chat/offered_tools.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace cria {
namespace {

using ToolsJson = nlohmann::ordered_json;

/// Null where it is no object or has no such member.
const ToolsJson* member(const ToolsJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

void add_types(const ToolsJson& schema, std::vector<std::string>& types) {
  const ToolsJson* const type = member(schema, "type");
  if (type == nullptr) return;
  if (type->is_string()) return types.push_back(type->get<std::string>());
  if (!type->is_array()) return;
  for (const ToolsJson& name : *type)
    if (name.is_string()) types.push_back(name.get<std::string>());
}

std::vector<std::string> types_of(const ToolsJson& schema) {
  std::vector<std::string> types;
  add_types(schema, types);
  for (const char* const name : {"anyOf", "oneOf"}) {
    const ToolsJson* const alternatives = member(schema, name);
    if (alternatives == nullptr || !alternatives->is_array()) continue;
    for (const ToolsJson& one : *alternatives) add_types(one, types);
  }
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

// Of several tools of a name the first that has properties counts.
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
      tool->second.emplace(argument, types_of(schema));
  }
}

}  // namespace cria
