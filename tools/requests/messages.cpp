#include "tools/requests/messages.h"

#include <algorithm>
#include <array>
#include <set>

#include "model/file/json.h"
#include "tools/requests/answer_fields.h"

namespace cria::tools {
namespace {

constexpr std::string_view kThinkingMembers[] = {"reasoning_content", "reasoning", "thinking"};

constexpr std::size_t kMaxMessages = 4096, kMaxTools = 128, kMaxMessageParts = 4096;

std::string read_role(const Fields& message) {
  constexpr std::array<std::string_view, 5> kKnown = {"system", "developer", "user", "assistant",
                                                      "tool"};
  const std::string role = message.require_text("role");
  if (std::ranges::count(kKnown, role) == 0)
    refuse_value(message.path("role"),
                 "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", role);
  return role == "developer" ? "system" : role;
}

/// Refusals of the assistant are its text; its thoughts are not.
std::string read_part(const Json& json, const std::string& path, bool assistant) {
  const Fields part(json, path);
  const std::string type = part.require_text("type");
  if (assistant && type == "refusal") return part.require_text("refusal");
  if (assistant && type == "thinking") return "";
  if (type != "text")
    refuse_unsupported(part.path("type"), "only parts of type \"text\" are supported");
  return part.require_text("text");
}

/// Only the assistant's content may be absent; then its refusal counts.
std::string read_content(const Fields& message, bool assistant) {
  const Json* const content = message.find("content");
  const std::string path = message.path("content");
  if (assistant && (content == nullptr || *content == ""))
    return message.text("refusal").value_or("");
  if (content == nullptr) refuse_missing(path, "a string");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) refuse_type(path, "a string or an array of parts", *content);
  if (content->size() > kMaxMessageParts) refuse_value(path, "at most 4096 parts", content->size());
  std::string all;
  for (std::size_t i = 0; i < content->size(); ++i)
    all += read_part((*content)[i], element_path(path, i), assistant);
  return all;
}

void check_call(const Json& json, const std::string& path) {
  const Fields call(json, path);
  (void)call.text("id");
  if (const auto type = call.text("type"); type && *type != "function")
    refuse_value(call.path("type"), "\"function\"", *type);
  const Fields function(call.require("function", "an object"), call.path("function"));
  (void)function.require_text("name");
  const Json* const arguments = function.find("arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object())
    refuse_type(function.path("arguments"), "a string with JSON in it", *arguments);
}

/// Returns true if there are tool calls.
bool check_calls(const Fields& message) {
  const Json* const calls = message.array("tool_calls");
  if (calls == nullptr || calls->empty()) return false;
  for (std::size_t i = 0; i < calls->size(); ++i)
    check_call((*calls)[i], element_path(message.path("tool_calls"), i));
  return true;
}

ChatMessage read_message(const Json& json, const std::string& path) {
  const Fields message(json, path);
  ChatMessage out;
  out.role = read_role(message);
  const bool assistant = out.role == "assistant", calls = assistant && check_calls(message);
  out.content = read_content(message, assistant);
  (void)message.text("name");
  reject_lost_members(message);
  std::optional<std::string> thoughts;
  for (const std::string_view key : kThinkingMembers)
    if (auto text = message.text(key); text && !thoughts) thoughts = std::move(text);
  if (out.role == "tool") (void)message.require_text("tool_call_id");
  Json rest = {{"role", out.role}, {"content", out.content}};
  if (calls && !message.has("content")) rest["content"] = nullptr;
  for (const char* key : {"name", "tool_call_id"})
    if (const Json* const value = message.find(key)) rest[key] = *value;
  if (thoughts) rest["reasoning_content"] = *thoughts;
  if (calls) rest["tool_calls"] = *message.find("tool_calls");
  if (rest.size() > 2) out.json = exact_json_text(rest);
  return out;
}

/// Returns the tool's name.
std::string check_tool(const Json& json, const std::string& path) {
  const Fields tool(json, path);
  const std::string type = tool.require_text("type");
  if (type != "function") refuse_value(tool.path("type"), "\"function\"", type);
  const Fields function(tool.require("function", "an object"), tool.path("function"));
  const std::string name = function.require_text("name");
  if (!is_name(name)) refuse_value(function.path("name"), kNameForm, name);
  (void)function.text("description");
  (void)function.object("parameters");
  (void)function.flag("strict");
  return name;
}

/// Returns the names of the tools.
std::set<std::string> check_tools(const Json& tools) {
  if (tools.size() > kMaxTools) refuse_value("tools", "at most 128 tools", tools.size());
  std::set<std::string> names;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = element_path("tools", i), name = check_tool(tools[i], path);
    if (!names.insert(name).second)
      refuse_value(path + ".function.name", "a name that no earlier tool has", name);
  }
  return names;
}

/// Reads {"mode": …, "tools": […]}.
void read_allowed(const Fields& allowed, const std::set<std::string>& names, ToolFields& out) {
  const std::string mode = allowed.require_text("mode");
  if (mode != "auto" && mode != "required")
    refuse_value(allowed.path("mode"), "\"auto\" or \"required\"", mode);
  out.choice = mode == "auto" ? ToolFields::Choice::Auto : ToolFields::Choice::Required;
  (void)allowed.require("tools", "an array of tools");
  const Json& tools = *allowed.array("tools");
  if (tools.empty()) refuse_value(allowed.path("tools"), "at least one tool", tools);
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Fields tool(tools[i], element_path(allowed.path("tools"), i));
    const Fields function(tool.require("function", "an object"), tool.path("function"));
    out.allowed.push_back(function.require_text("name"));
    if (names.count(out.allowed.back()) == 0)
      refuse_value(function.path("name"), "the name of one of the tools", out.allowed.back());
  }
}

void read_choice(const Fields& body, const std::set<std::string>& names, ToolFields& out) {
  using Choice = ToolFields::Choice;
  const Json* const choice = body.find("tool_choice");
  if (choice == nullptr) return;
  constexpr const char* kExpected =
      "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}";
  if (choice->is_string()) {
    const std::string word = choice->get<std::string>();
    if (word != "none" && word != "auto" && word != "required" && word != "any")
      refuse_value("tool_choice", kExpected, *choice);
    out.choice = word == "none" ? Choice::None : word == "auto" ? Choice::Auto : Choice::Required;
  } else if (choice->is_object()) {
    const Fields fields(*choice, "tool_choice");
    const std::string type = fields.require_text("type");
    if (type == "allowed_tools") {
      read_allowed(
          Fields(fields.require("allowed_tools", "an object"), fields.path("allowed_tools")), names,
          out);
      return;
    }
    if (type != "function")
      refuse_value("tool_choice.type", "\"function\" or \"allowed_tools\"", type);
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

bool changes_nothing(std::string_view name) {
  constexpr std::string_view kNames[] = {"id",         "type",     "status",    "cache_control",
                                         "citations",  "logprobs", "signature", "encrypted_content",
                                         "annotations"};
  return std::ranges::count(kNames, name) != 0;
}

bool is_known_member(std::string_view name) {
  constexpr std::string_view kKnown[] = {"role",    "content", "tool_calls", "tool_call_id",
                                         "refusal", "prefix",  "partial"};
  return changes_nothing(name) || is_thinking_member(name) || std::ranges::count(kKnown, name) != 0;
}

bool is_thinking_member(std::string_view name) {
  return std::ranges::count(kThinkingMembers, name) != 0;
}

void reject_lost_members(const Fields& message) {
  for (const char* name : {"images", "audio", "documents", "function_call"})
    reject_foreign_field(message, name);
}

std::vector<ChatMessage> read_messages(const Fields& body) {
  (void)body.require("messages", "an array of messages");
  const Json& list = *body.array("messages");
  if (list.empty() || list.size() > kMaxMessages)
    refuse_value("messages", "an array of 1 to 4096 messages",
                 list.empty() ? list : Json(list.size()));
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list.size(); ++i)
    messages.push_back(read_message(list[i], element_path("messages", i)));
  return messages;
}

ToolFields read_tool_fields(const Fields& body) {
  ToolFields out;
  std::set<std::string> names;
  if (const Json* const tools = body.array("tools"); tools != nullptr && !tools->empty()) {
    names = check_tools(*tools);
    out.tools = *tools;
  }
  read_choice(body, names, out);
  out.parallel = body.flag("parallel_tool_calls").value_or(true);
  return out;
}

}  // namespace cria::tools
