// Conversations in JSON files, in the form of OpenAI's messages: an array of {"role": …, "content":
// …}, or an object with such an array as "messages" and more that templates may ask for (tools,
// documents, …). A developer is the system.
#pragma once

#include <string>
#include <vector>

#include "engine/session.h"

namespace cria::tools {

struct Conversation {
  std::vector<ChatMessage> messages;
  std::string variables;  ///< the object's other keys, for the template: a JSON object, or ""
};

/// Throws Error that names the file and the message at fault.
Conversation read_conversation(const std::string& path);
/// The same for JSON that comes from elsewhere; path: for errors.
Conversation parse_conversation(const std::string& json, const std::string& path);
/// Puts a system message first, in place of one that is there; "": only takes that away.
void set_system_message(std::vector<ChatMessage>& messages, const std::string& text);
/// What a model answered, as a message of the conversation.
ChatMessage answer_message(const GenerateResult& answer);
/// An array, or an object where there are variables.
std::string conversation_json(const Conversation& conversation);
void write_conversation(const std::string& path, const Conversation& conversation);

}  // namespace cria::tools
