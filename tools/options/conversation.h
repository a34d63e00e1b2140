// Flags of an answer: messages and chat templates, how it is sampled, what ends it, and what form
// it has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/session.h"
#include "model/vocabulary.h"
#include "tokenizer/chat/chat_template.h"
#include "tools/cli/flag.h"

namespace cria::tools {

struct Conversation {
  std::vector<ChatMessage> messages;
  std::string variables;  ///< the object's other keys, for the template: a JSON object, or ""
};

/// Throws Error that names the file and the message at fault.
Conversation read_conversation(const std::string& path);
/// The same for JSON that comes from elsewhere; path: for errors.
Conversation parse_conversation(const std::string& json, const std::string& path);
/// The names among variables, and among a conversation's variables and the members of its messages,
/// that the template does not use.
std::vector<std::string> unused_names(const std::string& variables,
                                      const ChatTemplate& chat_template);
std::vector<std::string> unused_names(const Conversation& talk, const ChatTemplate& chat_template);
/// True if a system message comes first.
bool has_system_message(const std::vector<ChatMessage>& messages);
/// Puts a system message first, in place of one that is there; "": only takes that away.
void set_system_message(std::vector<ChatMessage>& messages, const std::string& text);
/// Puts that of --system first. One that was not typed, but set by the configuration, yields to one
/// that is there. Returns true if it was put.
bool set_system_option(std::vector<ChatMessage>& messages, const std::string& text,
                       const Command& command);
/// A model's answer as a message of the conversation.
ChatMessage answer_message(const GenerateResult& answer);
/// An array, or an object if there are variables.
std::string conversation_json(const Conversation& conversation);
void write_conversation(const std::string& path, const Conversation& conversation);

/// --chat-template FILE|NAME|TEXT
Flag template_flag(std::string& wanted);

/// --show-prompt
Flag show_prompt_flag(bool& shown);

/// --tool-format NAME
Flag call_form_flag(std::string& call_form);

/// Variables for the template from the command line.
struct TemplateVariables {
  bool think = false, no_think = false;
  std::string effort;     ///< "low" …, or ""
  Words others;           ///< JSON objects; later ones win
  std::string tools;      ///< a file, JSON, or ""
  std::string call_form;  ///< a name, or ""

  /// --think, --no-think, --reasoning-effort, --chat-template-kwargs
  Flags flags();
  /// --tools
  Flag tools_flag();
  /// For a model of this template; all: what over() returned. Throws Error where tools are offered
  /// and how it calls them is not known.
  [[nodiscard]] std::optional<CallForm> calls(const ChatTemplate& chat_template,
                                              const std::string& all) const;
  /// A conversation's own variables (a JSON object, or "") with these over them. Reads the tools,
  /// which may be stdin: once for a prompt. Throws Error for a bad file.
  [[nodiscard]] std::string over(const std::string& own) const;
  /// A note on variables that the template ignores, or "".
  [[nodiscard]] std::string note(const ChatTemplate& chat_template) const;
  /// The same for a model without template, which continues the prompt.
  [[nodiscard]] std::string note_without_template() const;
};

std::vector<std::string> builtin_template_names();

/// A built-in template by its name, a template's text, else a file (-: stdin). Throws Error.
ChatTemplate named_template(const std::string& wanted, const TemplateTokens& tokens);

/// The wanted template (see named_template()), or the model's, with a note() if it has none. Throws
/// Error.
ChatTemplate choose_template(const std::string& wanted, const Vocabulary& vocabulary);

/// Prints a template's note to stderr, if any, and empties it. Call it just before the first
/// output, so that an error comes without the note.
void print_and_clear(std::string& note);

struct SamplingOptions {
  GenerateOptions generate;
  Words biases;                      ///< ID+BIAS or ID-BIAS, as typed
  const Command* command = nullptr;  ///< its given flags override the model's file

  /// The options of a sampler (kSamplerOptions), --max-tokens, --stop and --ignore-eos.
  Flags flags();
  /// --json-schema, --grammar, --regex
  Flags constraint_flags();
  /// Returns the options, with a random seed if none was given, so that it can be shown. Throws
  /// UsageError for a bad --logit-bias.
  [[nodiscard]] GenerateOptions resolve() const;
  /// Sets the options that the model's file has (general.sampling.*) and no flag sets. Call it
  /// after parsing. Throws Error for a value out of range.
  void follow(const GgufFile& file, SamplerOptions& sampler) const;
};

}  // namespace cria::tools
