// The input of chat templates: messages as values. The built-in templates for models without one.
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

/// "": an empty object. what: for errors. Throws Error.
jinja::Dict json_object(const std::string& json, const char* what);

}  // namespace cria
