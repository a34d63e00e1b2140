#include "tokenizer/chat/hermes_tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "model/file/json.h"

namespace cria {
namespace {

using ToolJson = nlohmann::ordered_json;

// Short: small models have small contexts, and a tool's parameters say what it does.
std::string told_tools(const std::string& tools) {
  std::string text = "You can call these tools:\n<tools>\n";
  for (const ToolJson& tool : ToolJson::parse(tools, nullptr, false)) text += tool.dump() + "\n";
  return text +
         "</tools>\nTo call one, write:\n"
         "<tool_call>\n{\"name\": NAME, \"arguments\": {…}}\n</tool_call>";
}

/// What the JSON in a text is; the text itself where that is too much of it (the library's ordered
/// objects compare each new key with all before it, and print themselves recursively).
ToolJson parsed_arguments(const std::string& text) {
  try {
    return parse_ordered_json(text, "", {.bytes = text.size(), .depth = 100, .values = 4'000});
  } catch (const Error&) {
    return ToolJson::accept(text) ? ToolJson(text) : ToolJson::object();
  }
}

std::string called_tools(const ToolJson& calls) {
  std::string text;
  for (const ToolJson& call : calls) {
    const ToolJson& function =
        call.is_object() && call.contains("function") ? call["function"] : call;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string())
      throw Error("", R"(a call of a tool: expected {"function": {"name": …, "arguments": …}})");
    ToolJson arguments = function.value("arguments", ToolJson::object());
    if (arguments.is_null()) arguments = ToolJson::object();
    if (arguments.is_string())
      arguments = parsed_arguments(arguments.get_ref<const std::string&>());
    const ToolJson said = {{"name", function["name"]}, {"arguments", std::move(arguments)}};
    text += "\n<tool_call>\n" + said.dump() + "\n</tool_call>";
  }
  return text;
}

ToolJson fields_of(const ChatMessage& message) {
  return message.json.empty() ? ToolJson::object() : ToolJson::parse(message.json, nullptr, false);
}

bool has_calls(const ToolJson& fields) {
  return fields.is_object() && fields.contains("tool_calls") && fields["tool_calls"].is_array();
}

/// A content of several texts as one.
std::string content_text(const ChatMessage& message, const ToolJson& fields) {
  if (!fields.is_object() || !fields.contains("content")) return message.content;
  if (fields["content"].is_string()) return fields["content"].get<std::string>();
  if (!fields["content"].is_array()) return message.content;
  std::string text;
  for (const ToolJson& part : fields["content"]) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string())
      throw Error("",
                  "a message holds something other than text, which a chat template without tools "
                  "cannot tell");
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

/// In the system message, which is the first one, or in front of the first user's.
void tell_tools(const std::string& tools, const std::string& role,
                std::vector<ChatMessage>& messages) {
  const bool as_system = role == "system";
  const auto at =
      as_system ? messages.begin() : std::ranges::find(messages, role, &ChatMessage::role);
  if (at == messages.end() || at->role != role) {
    messages.insert(messages.begin(), {role, told_tools(tools)});
    return;
  }
  const std::string own = content_text(*at, fields_of(*at)), told = told_tools(tools);
  *at = {role, as_system ? own + "\n\n" + told : told + "\n\n" + own};
}

}  // namespace

bool has_tool_calls(const std::vector<ChatMessage>& messages) {
  return std::ranges::any_of(
      messages, [](const ChatMessage& message) { return has_calls(fields_of(message)); });
}

std::vector<ChatMessage> with_tools_as_text(const std::vector<ChatMessage>& messages,
                                            const std::string& tools, const std::string& role) {
  std::vector<ChatMessage> out;
  bool after_result = false;
  for (const ChatMessage& message : messages) {
    const ToolJson fields = fields_of(message);
    const bool is_result = message.role == "tool";
    ChatMessage as_text = message;
    if (is_result) {
      as_text = {"user",
                 "<tool_response>\n" + content_text(message, fields) + "\n</tool_response>"};
    } else if (has_calls(fields)) {
      const std::string said = content_text(message, fields),
                        calls = called_tools(fields["tool_calls"]);
      as_text = {message.role, said + calls.substr(said.empty() && !calls.empty() ? 1 : 0)};
    }
    if (is_result && after_result)  // many templates refuse two messages of a user in a row
      out.back().content += "\n" + as_text.content;
    else
      out.push_back(std::move(as_text));
    after_result = is_result;
  }
  if (!tools.empty()) tell_tools(tools, role, out);
  return out;
}

}  // namespace cria
