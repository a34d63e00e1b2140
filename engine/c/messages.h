// Conversations as callers give them.
#pragma once

#include <vector>

#include "engine/c/call.h"
#include "tokenizer/chat/chat_template.h"

namespace cria::c_api {

std::vector<ChatMessage> conversation(const cria_message* messages, std::size_t n);

}  // namespace cria::c_api
