#include "tokenizer/chat/hermes_tools.h"

#include <algorithm>
#include <nlohmann/json.hpp>

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

std::string called_tools(const ToolJson& message) {
  std::string text;
  for (const ToolJson& call : message.value("tool_calls", ToolJson::array())) {
    const ToolJson function = call.is_object() ? call.value("function", call) : ToolJson::object();
    ToolJson arguments = function.value("arguments", ToolJson::object());
    if (arguments.is_string()) arguments = ToolJson::parse(arguments.get<std::string>(), nullptr, false);
    if (arguments.is_discarded()) arguments = ToolJson::object();
    const ToolJson said = {{"name", function.value("name", "")}, {"arguments", std::move(arguments)}};
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

}  // namespace

bool has_tool_calls(const std::vector<ChatMessage>& messages) {
  return std::ranges::any_of(messages,
                             [](const ChatMessage& message) { return has_calls(fields_of(message)); });
}

std::vector<ChatMessage> with_tools_as_text(const std::vector<ChatMessage>& messages,
                                            const std::string& tools) {
  std::vector<ChatMessage> out;
  const bool has_system = !tools.empty() && !messages.empty() && messages.front().role == "system";
  const std::string before = has_system ? messages.front().content + "\n\n" : "";
  if (!tools.empty()) out.push_back({"system", before + told_tools(tools)});
  for (std::size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
    ChatMessage message = messages[i];
    const ToolJson json = fields_of(message);
    if (message.role == "tool") {
      message = {"user", "<tool_response>\n" + message.content + "\n</tool_response>"};
    } else if (has_calls(json)) {
      const std::string calls = called_tools(json);
      message = {message.role,
                 message.content + calls.substr(message.content.empty() && !calls.empty() ? 1 : 0)};
    }
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace cria
