#include "tools/options/conversation.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "tokenizer/jinja/values/json.h"
#include "tools/options/input.h"
#include "tools/terminal/output_file.h"

namespace cria::tools {
namespace {

using Json = nlohmann::ordered_json;

/// A message's content may be left out where it calls tools instead.
bool may_lack_content(const Json& message) { return message.contains("tool_calls"); }

/// Throws jinja::Failure for what a template cannot take.
std::string checked_text(const Json& json) {
  (void)jinja::from_json(json);
  return json.dump();
}

/// A content of text parts as one text, as `cria serve` joins them; nothing for another one.
std::optional<std::string> joined_text(const Json& content) {
  std::string all;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text) return std::nullopt;
    all += part["text"].get_ref<const std::string&>();
  }
  return all;
}

/// OpenAI's developer is the system, as for `cria serve`.
ChatMessage read_message(const Json& message, const std::string& path, std::size_t index) {
  const std::string where = "message " + std::to_string(index);
  if (!message.is_object())
    throw Error(path, std::string("expected an object, got ") + message.type_name(), where);
  const auto required = [&](const char* key) -> const Json& {
    const auto found = message.find(key);
    if (found == message.end()) throw Error(path, std::string("\"") + key + "\" is missing", where);
    return *found;
  };
  const auto wrong_type = [&](const char* key, const Json& value) {
    return Error(path, std::string("\"") + key + "\": expected a string, got " + value.type_name(),
                 where);
  };
  ChatMessage out;
  const Json& role = required("role");
  if (!role.is_string()) throw wrong_type("role", role);
  out.role = role == "developer" ? "system" : role.get<std::string>();
  if (message.contains("content") || !may_lack_content(message)) {
    const Json& content = required("content");
    if (!content.is_string() && !content.is_null() && !content.is_array())
      throw wrong_type("content", content);
    if (content.is_string()) out.content = content;
  }
  const bool plain =
      message.size() == 2 && message.contains("content") && message["content"].is_string();
  if (plain) return out;
  Json whole = message;
  whole["role"] = out.role;
  if (whole.contains("content") && whole["content"].is_array()) {
    if (auto text = joined_text(whole["content"])) {
      whole["content"] = *text;
      out.content = std::move(*text);
    }
  }
  out.json = checked_text(whole);
  return out;
}

Conversation convert(const Json& json, const std::string& path) {
  const Json* list = &json;
  Conversation out;
  if (json.is_object()) {
    const auto found = json.find("messages");
    if (found == json.end()) throw Error(path, "\"messages\" is missing");
    list = &*found;
    Json variables = json;
    variables.erase("messages");
    if (!variables.empty()) out.variables = checked_text(variables);
  }
  if (!list->is_array())
    throw Error(path, std::string("expected an array of messages, got ") + list->type_name());
  for (const Json& message : *list)
    out.messages.push_back(read_message(message, path, out.messages.size()));
  return out;
}

Json message_json(const ChatMessage& message) {
  if (!message.json.empty()) return Json::parse(message.json);
  return {{"role", message.role}, {"content", message.content}};
}

}  // namespace

Conversation read_conversation(const std::string& path) {
  return parse_conversation(read_file(path), input_name(path));
}

Conversation parse_conversation(const std::string& json, const std::string& path) {
  try {
    return convert(Json::parse(json), path);
  } catch (const Json::parse_error& error) {
    throw Error(path, "not JSON", "at byte " + std::to_string(error.byte));
  } catch (const Json::exception& error) {  // a number out of range
    throw Error(path, std::string("is no JSON that can be read: ") + error.what());
  } catch (const jinja::Failure& failure) {
    throw Error(path, failure.what());
  }
}

void set_system_message(std::vector<ChatMessage>& messages, const std::string& text) {
  if (!messages.empty() && messages.front().role == "system") messages.erase(messages.begin());
  if (!text.empty()) messages.insert(messages.begin(), {"system", text});
}

ChatMessage answer_message(const GenerateResult& answer) {
  ChatMessage message{"assistant", answer.text};
  if (answer.reasoning.empty()) return message;
  const Json json = {
      {"role", message.role}, {"content", answer.text}, {"reasoning_content", answer.reasoning}};
  message.json = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return message;
}

std::string conversation_json(const Conversation& conversation) {
  Json list = Json::array();
  for (const ChatMessage& message : conversation.messages) list.push_back(message_json(message));
  Json all = std::move(list);
  if (!conversation.variables.empty()) {
    Json object = Json::parse(conversation.variables);
    object["messages"] = std::move(all);
    all = std::move(object);
  }
  return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_conversation(const std::string& path, const Conversation& conversation) {
  OutputFile file(path);
  file.write(conversation_json(conversation));
  file.finish();
}

}  // namespace cria::tools
