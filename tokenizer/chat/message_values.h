// The messages of a conversation as a template's values.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/chat/chat_template.h"
#include "tokenizer/jinja/values/value.h"

namespace cria {
/// Lists of all messages: the first form that the template takes counts, and there is one at least.
using MessageForms = std::vector<std::vector<jinja::Value>>;
/// Throws Error for messages that are no JSON objects, and for parts that are no text where the template knows no parts.
MessageForms message_forms(const std::vector<ChatMessage>& messages, const TemplateAsks& asks);

/// "": an empty object. what: for errors. Throws Error.
jinja::Dict json_object(const std::string& json, const char* what);

}  // namespace cria
