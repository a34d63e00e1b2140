// Which chat template is used, from the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/vocabulary.h"
#include "tokenizer/chat/chat_template.h"

namespace cria::tools {

/// --chat-template FILE|NAME
void add_template_option(CLI::App& command, std::string& wanted);

/// --tool-format NAME
CLI::Option* add_call_form_option(CLI::App& command, std::string& call_form);

/// What the command line tells the template beside the messages.
struct TemplateVariables {
  bool think = false, no_think = false;
  std::string effort;     ///< "low" …, or ""
  std::string others;     ///< a JSON object, or ""
  std::string tools;      ///< a file, or ""
  std::string call_form;  ///< a name, or ""

  /// --think, --no-think, --reasoning-effort, --chat-template-kwargs. Returns them.
  std::vector<CLI::Option*> add_to(CLI::App& command);
  /// --tools. Returns it.
  CLI::Option* add_offered_to(CLI::App& command);
  /// --tools, --tool-format. Returns them.
  std::vector<CLI::Option*> add_tools_to(CLI::App& command);
  /// For a model of this template; all: what over() returned. Throws Error where tools are offered
  /// and how it calls them is not known.
  [[nodiscard]] std::optional<CallForm> calls(const ChatTemplate& chat_template,
                                              const std::string& all) const;
  /// A conversation's own variables (a JSON object, or "") with these over them. Reads the tools,
  /// which may be stdin: once for a prompt. Throws Error for a bad file.
  [[nodiscard]] std::string over(const std::string& own) const;
  /// What of these the template never looks at, in words, or "".
  [[nodiscard]] std::string note(const ChatTemplate& chat_template) const;
  /// Likewise where a model has no template and the prompt is a text that goes on.
  [[nodiscard]] std::string note_without_template() const;
};

std::vector<std::string> builtin_template_names();

/// A built-in template by its name, else a file (-: stdin). Throws Error.
ChatTemplate named_template(const std::string& wanted, const TemplateTokens& tokens);

/// The wanted template (as named_template() has it); where none is wanted that of the model, with a
/// note() if it has none. Throws Error.
ChatTemplate choose_template(const std::string& wanted, const Vocabulary& vocabulary);

/// Prints a template's note on stderr, if there is one, and empties it. For just before the first
/// output: an error that comes instead stands alone.
void say_note(std::string& note);

}  // namespace cria::tools
