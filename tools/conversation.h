// Conversations in JSON files: an array of {"role": …, "content": …}.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/chat_template.h"

namespace cria::tools {

/// Throws Error that names the file and the message at fault.
std::vector<ChatMessage> read_messages(const std::string& path);
void write_messages(const std::string& path, const std::vector<ChatMessage>& messages);

}  // namespace cria::tools
