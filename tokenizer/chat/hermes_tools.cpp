#include "tokenizer/chat/hermes_tools.h"

#include <nlohmann/json.hpp>

namespace cria {
namespace {

using ToolJson = nlohmann::ordered_json;

std::string told_tools(const std::string& tools) {
  std::string text = "You can call tools. These are there:\n<tools>\n";
  for (const ToolJson& tool : ToolJson::parse(tools, nullptr, false)) text += tool.dump() + "\n";
  return text +
         "</tools>\nTo call one, write its name and its arguments as JSON between two marks, one call or "
         "several:\n"
         "<tool_call>\n{\"name\": NAME, \"arguments\": {…}}\n</tool_call>\n"
         "Then wait for what comes back between <tool_response> and </tool_response>.";
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

}  // namespace

std::vector<ChatMessage> with_tools_as_text(const std::vector<ChatMessage>& messages,
                                            const std::string& tools) {
  std::vector<ChatMessage> out;
  const bool has_system = !messages.empty() && messages.front().role == "system";
  const std::string before = has_system ? messages.front().content + "\n\n" : "";
  out.push_back({"system", before + told_tools(tools)});
  for (std::size_t i = has_system ? 1 : 0; i < messages.size(); ++i) {
    ChatMessage message = messages[i];
    const ToolJson json =
        message.json.empty() ? ToolJson::object() : ToolJson::parse(message.json, nullptr, false);
    if (message.role == "tool") {
      message = {"user", "<tool_response>\n" + message.content + "\n</tool_response>"};
    } else if (json.is_object() && json.contains("tool_calls") && json["tool_calls"].is_array()) {
      const std::string calls = called_tools(json);
      message = {message.role,
                 message.content + calls.substr(message.content.empty() && !calls.empty() ? 1 : 0)};
    }
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace cria
