// The messages of a conversation as a template's values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_template.h"
#include "tokenizer/jinja/values/value.h"

namespace cria {
/// Lists of all messages: the first form that the template takes counts, and there is one at least.
using MessageForms = std::vector<std::vector<jinja::Value>>;
/// For a template of this source, whose words tell what it knows. Throws Error for messages that
/// are no JSON objects, and for parts that are no text where it knows no parts.
MessageForms message_forms(const std::vector<ChatMessage>& messages, std::string_view source);

/// "": an empty object. what: for errors. Throws Error.
jinja::Dict json_object(const std::string& json, const char* what);

}  // namespace cria
