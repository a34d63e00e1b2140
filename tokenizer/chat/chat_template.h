// A conversation as the text (and the tokens) that a model was trained on.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/answer_format.h"
#include "tokenizer/tokenizer.h"

namespace cria::jinja {
class Template;
class Text;
class Value;
}  // namespace cria::jinja

namespace cria {

struct ContentForms;

/// One message of a conversation.
struct ChatMessage {
  std::string role;     ///< "system", "user", "assistant", …
  std::string content;  ///< its text
  /// A message that says more (tool calls, a content of several parts, "reasoning_content"): all of
  /// it as a JSON object, which the template sees instead of the content above. "" otherwise.
  std::string json = {};
};

/// The input of a template in addition to the messages.
struct RenderOptions {
  bool add_generation_prompt = true;  ///< end with the opening of the assistant's answer
  /// End with the content of the last message, the assistant's, which the answer continues. Throws
  /// Error if the template does not show it.
  bool continue_last = false;
  /// Further variables of the template (tools, documents, enable_thinking …) as a JSON object, or
  /// "". A template without tool support gets the tools in Hermes form, in the system message or,
  /// if it refuses one, in the first user message.
  std::string variables = {};
  std::optional<std::tm> now = {};  ///< for templates that tell the date; default: the clock
  /// Set to what the template omits, "the system message" or the last question; null: that is an
  /// error.
  std::string* omitted = nullptr;
};

/// The texts that templates call bos_token, eos_token and so on.
struct TemplateTokens {
  std::string bos, eos;  ///< as they stand in templates
  std::string unk = {};  ///< in templates; undefined there if empty
  std::string pad = {};  ///< same
  std::string sep = {};  ///< same
  /// Members are empty if the vocabulary has no such token.
  static TemplateTokens of(const Vocabulary& vocabulary);
};

/// Copies share what was parsed.
class ChatTemplate {
 public:
  /// Returns the templates of the model's file, with and without tools: Jinja2, or the name of a
  /// built-in one. Without one it is the built-in "plain", and note() says so. Throws Error with
  /// line and column if it cannot be parsed.
  static ChatTemplate from_vocabulary(const Vocabulary& vocabulary);
  /// name: the file's, for errors.
  static ChatTemplate parse(std::string_view source, std::string name, TemplateTokens tokens);
  /// One of builtin_names(); nothing for other names.
  static std::optional<ChatTemplate> builtin(std::string_view name, TemplateTokens tokens);
  static std::string builtin_names();  ///< "chatml, llama2, …"

  /// Renders the conversation. Only text that the template wrote is trusted, and the usual role
  /// names, from which templates build markers; contents never are. Missing content of tool calls
  /// is "", unless the template tests for that. Text and calls of one message become two messages
  /// where the template shows only one of them (not with RenderOptions::omitted). Throws Error with
  /// line and column if the template fails, refuses the conversation or omits the last question.
  [[nodiscard]] jinja::Text render(const std::vector<ChatMessage>& messages,
                                   const RenderOptions& options) const;
  /// Token ids of render(): markers become control tokens, what users wrote never does (no
  /// injection of control tokens).
  [[nodiscard]] std::vector<TokenId> encode(const Tokenizer& tokenizer,
                                            const std::vector<ChatMessage>& messages,
                                            const RenderOptions& options) const;
  void set_tokens(TemplateTokens tokens);  ///< replaces the model's
  /// Texts that end an answer although the model has no token for it.
  [[nodiscard]] const std::vector<std::string>& stops() const { return stops_; }
  /// The format of the answers, known by the template's markers. variables: as in RenderOptions;
  /// without "tools" no tool calls are expected.
  [[nodiscard]] AnswerFormat answer_format(const std::string& variables = {}) const;
  /// True if the template's source contains this word, such as a variable's name.
  [[nodiscard]] bool names(std::string_view word) const {
    return source_->find(word) != std::string::npos;
  }
  /// Its source, without the one for tools.
  [[nodiscard]] const std::string& source() const { return *source_; }
  /// True if the template looks at this variable.
  [[nodiscard]] bool reads(std::string_view variable) const;
  /// A note to the user on how this template was chosen, or "".
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  ChatTemplate(std::shared_ptr<const jinja::Template> parsed, TemplateTokens tokens)
      : template_(std::move(parsed)), tokens_(std::move(tokens)) {}
  /// The template for these variables.
  [[nodiscard]] const ChatTemplate& chosen(const std::string& variables) const;
  [[nodiscard]] std::optional<jinja::Text> rendered_apart(const std::vector<ChatMessage>& messages,
                                                          const RenderOptions& options) const;
  [[nodiscard]] jinja::Text render_with_tools(const std::vector<ChatMessage>& messages,
                                              const RenderOptions& options) const;
  [[nodiscard]] jinja::Text render_messages(const std::vector<ChatMessage>& messages,
                                            const RenderOptions& options) const;
  [[nodiscard]] jinja::Text render_values(std::vector<jinja::Value> messages,
                                          const RenderOptions& options) const;

  std::shared_ptr<const jinja::Template> template_;
  TemplateTokens tokens_;
  std::shared_ptr<const std::string> source_;
  std::shared_ptr<const ContentForms> contents_;
  std::shared_ptr<const ChatTemplate> tool_template_;  ///< may be null
  AnswerFormat format_;
  std::vector<std::string> stops_;
  std::string note_;
};

/// Number of leading tokens that belong to the system message (0 without one): what a context shift
/// should keep.
std::size_t system_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                          const std::vector<ChatMessage>& messages, const RenderOptions& options);

}  // namespace cria
