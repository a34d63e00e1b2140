#include "tools/serve/api/messages.h"

#include <algorithm>
#include <array>

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_missing;
using tools::refuse_type;
using tools::refuse_unsupported;
using tools::refuse_value;

constexpr std::size_t kMaxMessages = 4096;

std::string read_role(const Fields& message) {
  constexpr std::array<std::string_view, 5> kKnown = {"system", "developer", "user", "assistant",
                                                      "tool"};
  const std::string role = message.require_text("role");
  if (std::ranges::count(kKnown, role) == 0)
    refuse_value(message.path("role"),
                 "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", role);
  return role == "developer" ? "system" : role;
}

std::string read_part(const RequestJson& json, const std::string& path) {
  const Fields part(json, path);
  const std::string type = part.require_text("type");
  if (type != "text")
    refuse_unsupported(part.path("type"), "only parts of the type \"text\" can be read");
  return part.require_text("text");
}

/// Absent only beside calls of tools.
std::string read_content(const Fields& message, bool may_lack) {
  const RequestJson* const content = message.find("content");
  const std::string path = message.path("content");
  if (content == nullptr && may_lack) return "";
  if (content == nullptr) refuse_missing(path, "a string");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) refuse_type(path, "a string or an array of parts", *content);
  std::string all;
  for (std::size_t i = 0; i < content->size(); ++i)
    all += read_part((*content)[i], element_path(path, i));
  return all;
}

void check_call(const RequestJson& json, const std::string& path) {
  const Fields call(json, path);
  (void)call.text("id");
  if (const auto type = call.text("type"); type && *type != "function")
    refuse_value(call.path("type"), "\"function\"", *type);
  const Fields function(call.require("function", "an object"), call.path("function"));
  (void)function.require_text("name");
  const RequestJson* const arguments = function.find("arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object())
    refuse_type(function.path("arguments"), "a string with JSON in it", *arguments);
}

/// Whether there are any.
bool check_calls(const Fields& message) {
  const RequestJson* const calls = message.array("tool_calls");
  if (calls == nullptr || calls->empty()) return false;
  for (std::size_t i = 0; i < calls->size(); ++i)
    check_call((*calls)[i], element_path(message.path("tool_calls"), i));
  return true;
}

ChatMessage read_message(const RequestJson& json, const std::string& path) {
  const Fields message(json, path);
  ChatMessage out;
  out.role = read_role(message);
  const bool calls = out.role == "assistant" && check_calls(message);
  out.content = read_content(message, calls);
  (void)message.text("name");
  (void)message.text("reasoning_content");
  if (out.role == "tool") (void)message.require_text("tool_call_id");
  RequestJson rest = {{"role", out.role}, {"content", out.content}};
  if (!message.has("content")) rest["content"] = nullptr;
  for (const char* key : {"name", "tool_call_id", "reasoning_content"})
    if (const RequestJson* const value = message.find(key)) rest[key] = *value;
  if (calls) rest["tool_calls"] = *message.find("tool_calls");
  if (rest.size() > 2) out.json = rest.dump();
  return out;
}

}  // namespace

std::vector<ChatMessage> read_messages(const Fields& body) {
  (void)body.require("messages", "an array of messages");
  const RequestJson& list = *body.array("messages");
  if (list.empty() || list.size() > kMaxMessages)
    refuse_value("messages", "an array of 1 to 4096 messages",
                 list.empty() ? list : RequestJson(list.size()));
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < list.size(); ++i)
    messages.push_back(read_message(list[i], element_path("messages", i)));
  return messages;
}

}  // namespace cria::serve
