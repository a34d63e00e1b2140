// Messages as texts: what a rendered text lacks of them, and tools for templates without tool
// calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_template.h"
#include "tokenizer/chat/template_messages.h"
#include "tokenizer/chat/tool_call.h"

namespace cria {

/// True if a rendered text lacks a message. Templates trim contents and cut markers out, so one of
/// the longest words is enough.
bool omits(std::string_view text, const ChatMessage& message);
/// "the system message", or what else of the conversation the text lacks; "" if nothing. The last
/// question or tool's result must be there, and the messages of the system and of unusual roles
/// (the last 16).
std::string omitted_message(const std::vector<ChatMessage>& messages, const ContentForms& contents,
                            std::string_view text);

/// True if a rendered text lacks the text, or a call, of one of the last messages that have both.
bool omits_beside_calls(std::string_view text, const std::vector<ChatMessage>& messages);
/// Returns the messages with the calls of such a message in one of their own, behind its text.
std::vector<ChatMessage> with_calls_apart(const std::vector<ChatMessage>& messages);

/// True if a message calls tools.
bool has_tool_calls(const std::vector<ChatMessage>& messages);

/// The form of tool calls and results as text.
struct ToolTexts {
  CallForm form = CallForm::Hermes;  ///< format of calls; None: JSON without markers
  bool keep_results = false;         ///< results stay messages of the role "tool"
};
/// Returns the conversation as plain texts. tools (a JSON array, or "") go into the system message
/// or before the first user's text (role: "system" or "user"). Throws Error for a call without a
/// name and for content other than text.
std::vector<ChatMessage> with_tools_as_text(const std::vector<ChatMessage>& messages,
                                            const std::string& tools, const std::string& role,
                                            const ToolTexts& texts);

}  // namespace cria
