#include "tools/serve/api/tool_fields.h"

#include <set>

#include "tools/options/constraint_fields.h"

namespace cria::serve {
namespace {

using tools::refuse_type;
using tools::refuse_value;

constexpr std::size_t kMaxTools = 128;

/// Returns the tool's name.
std::string check_tool(const RequestJson& json, const std::string& path) {
  const Fields tool(json, path);
  const std::string type = tool.require_text("type");
  if (type != "function") refuse_value(tool.path("type"), "\"function\"", type);
  const Fields function(tool.require("function", "an object"), tool.path("function"));
  const std::string name = function.require_text("name");
  if (!tools::is_name(name)) refuse_value(function.path("name"), tools::kNameForm, name);
  (void)function.text("description");
  (void)function.object("parameters");
  (void)function.flag("strict");
  return name;
}

/// Their names.
std::set<std::string> check_tools(const RequestJson& tools) {
  if (tools.size() > kMaxTools) refuse_value("tools", "at most 128 tools", tools.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = tools::element_path("tools", i), name = check_tool(tools[i], path);
    if (!names.insert(name).second)
      refuse_value(path + ".function.name", "a name that no tool before it has", name);
  }
  return names;
}

void read_choice(const Fields& body, const std::set<std::string>& names, ToolFields& out) {
  using Choice = ToolFields::Choice;
  const RequestJson* const choice = body.find("tool_choice");
  if (choice == nullptr) return;
  constexpr const char* kExpected =
      "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}";
  if (choice->is_string()) {
    const std::string word = choice->get<std::string>();
    if (word != "none" && word != "auto" && word != "required")
      refuse_value("tool_choice", kExpected, *choice);
    out.choice = word == "none" ? Choice::None : word == "auto" ? Choice::Auto : Choice::Required;
  } else if (choice->is_object()) {
    const Fields fields(*choice, "tool_choice");
    if (const std::string type = fields.require_text("type"); type != "function")
      refuse_value("tool_choice.type", "\"function\"", type);
    const Fields function(fields.require("function", "an object"), "tool_choice.function");
    out.choice = Choice::Named;
    out.name = function.require_text("name");
    if (names.count(out.name) == 0)
      refuse_value("tool_choice.function.name", "the name of one of the tools", out.name);
  } else {
    refuse_type("tool_choice", kExpected, *choice);
  }
  if (out.demanded() && names.empty()) refuse_value("tool_choice", "tools to choose from", *choice);
}

}  // namespace

ToolFields read_tool_fields(const Fields& body) {
  ToolFields out;
  std::set<std::string> names;
  if (const RequestJson* const tools = body.array("tools"); tools != nullptr && !tools->empty()) {
    names = check_tools(*tools);
    out.tools = *tools;
  }
  read_choice(body, names, out);
  out.parallel = body.flag("parallel_tool_calls").value_or(true);
  return out;
}

}  // namespace cria::serve
