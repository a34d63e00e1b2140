// The chat templates that cria brings along, for models whose files have none.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_template.h"
#include "tokenizer/jinja/values/value.h"

namespace cria {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;  ///< Jinja2
  std::string_view stop;    ///< a text that ends an answer, where no token does; or ""
};

std::span<const BuiltinTemplate> builtin_templates();
/// Null for an unknown name.
const BuiltinTemplate* find_builtin_template(std::string_view name);

// The messages of a conversation as a template's values.

/// Alternative lists of all messages, at least one; the first that the template accepts counts.
using MessageForms = std::vector<std::vector<jinja::Value>>;
/// Returns the forms for a template with this source. Throws Error for messages that are not JSON
/// objects, and for parts without text if the template does not know parts.
MessageForms message_forms(const std::vector<ChatMessage>& messages, std::string_view source);

/// "": an empty object. what: for errors. Throws Error.
jinja::Dict json_object(const std::string& json, const char* what);

// Tools for templates that know none.

/// True if a message calls tools.
bool has_tool_calls(const std::vector<ChatMessage>& messages);

/// Returns the conversation as plain texts. tools (a JSON array, or "") go into the system message
/// or before the first user's text (role: "system" or "user"); tool calls and results are written
/// in Hermes form. Throws Error for a call without a name and for content other than text.
std::vector<ChatMessage> with_tools_as_text(const std::vector<ChatMessage>& messages,
                                            const std::string& tools, const std::string& role);

}  // namespace cria
