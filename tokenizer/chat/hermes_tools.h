// Tools for templates that know none.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/chat/chat_template.h"

namespace cria {

/// Whether a message calls tools.
bool has_tool_calls(const std::vector<ChatMessage>& messages);

/// The conversation as texts alone: tools (a JSON array, or "") in the system message, or in front
/// of what the first user says (role: "system" or "user"); calls and answers of tools in the form
/// of Hermes. Throws Error for a call without a name and for contents other than text.
std::vector<ChatMessage> with_tools_as_text(const std::vector<ChatMessage>& messages,
                                            const std::string& tools, const std::string& role);

}  // namespace cria
