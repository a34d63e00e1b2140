// The input of chat templates: messages as values, tools as text for templates without tool calls.
// The built-in templates for models without one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/chat_template.h"
#include "tokenizer/jinja/template.h"
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

/// The form in which a template shows a message's content.
enum class ContentForm : std::uint8_t {
  Unknown,  ///< not at all, or the template rejects the probe
  Text,     ///< as a string
  Parts,    ///< as a list of parts
  Both,
};
/// The forms by role, found by rendering short conversations.
struct ContentForms {
  ContentForm system, user, assistant, tool;

  static ContentForms probe(const jinja::Template& parsed);
  [[nodiscard]] ContentForm of(std::string_view role) const;
};

/// Alternative lists of all messages, at least one; the first that the template accepts counts.
using MessageForms = std::vector<std::vector<jinja::Value>>;
/// Returns the forms for a template with this source. Throws Error for messages that are not JSON
/// objects, and for parts without text if the template does not know parts.
MessageForms message_forms(const std::vector<ChatMessage>& messages, std::string_view source,
                           const ContentForms& contents);

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

/// "": an empty object. what: for errors. Throws Error.
jinja::Dict json_object(const std::string& json, const char* what);

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
