#include "tools/conversation.h"

#include <nlohmann/json.hpp>

#include "tools/common.h"
#include "tools/output_file.h"

namespace cria::tools {
namespace {

std::string string_field(const nlohmann::json& message, const char* key, const std::string& path,
                         std::size_t index) {
  const std::string where = "message " + std::to_string(index);
  if (!message.is_object())
    throw Error(path, std::string("expected an object, got ") + message.type_name(), where);
  const auto found = message.find(key);
  if (found == message.end()) throw Error(path, std::string("\"") + key + "\" is missing", where);
  if (!found->is_string())
    throw Error(path, std::string("\"") + key + "\": expected a string, got " + found->type_name(), where);
  return *found;
}

}  // namespace

std::vector<ChatMessage> read_messages(const std::string& path) {
  const std::string text = read_file(path);
  nlohmann::json list;
  try {
    list = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(path, "not JSON", "at byte " + std::to_string(error.byte));
  }
  if (!list.is_array())
    throw Error(path, std::string("expected an array of messages, got ") + list.type_name());
  std::vector<ChatMessage> messages;
  for (const nlohmann::json& message : list) {
    const std::size_t index = messages.size();
    messages.push_back(
        {string_field(message, "role", path, index), string_field(message, "content", path, index)});
  }
  return messages;
}

void write_messages(const std::string& path, const std::vector<ChatMessage>& messages) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  OutputFile file(path);
  file.write(list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  file.finish();
}

}  // namespace cria::tools
