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
/// One message of a conversation.
struct ChatMessage {
  std::string role;     ///< "system", "user", "assistant", …
  std::string content;  ///< its text
  /// A message that says more (tool calls, a content of several parts, "reasoning_content"): all of
  /// it as a JSON object, which the template sees instead of the content above. "" otherwise.
  std::string json = {};
};

/// What a template is given beside the messages.
struct RenderOptions {
  bool add_generation_prompt = true;  ///< end with the opening of the assistant's answer
  /// What else the template may ask for (tools, documents, enable_thinking …) as a JSON object, or
  /// "". A template that knows no tools gets them in the form of Hermes, as a part of the system
  /// message or, where it refuses one, of the first user's.
  std::string variables = {};
  std::optional<std::tm> now = {};  ///< for templates that tell the date; default: the clock
};

/// The texts that templates call bos_token, eos_token and so on.
struct TemplateTokens {
  std::string bos, eos;  ///< as they stand in templates
  std::string unk = {};  ///< likewise; undefined there where it is empty
  std::string pad = {};  ///< likewise
  std::string sep = {};  ///< likewise
  /// Empty where the vocabulary has none.
  static TemplateTokens of(const Vocabulary& vocabulary);
};

/// Copies share what was parsed.
class ChatTemplate {
 public:
  /// The template of the model's file: Jinja2, or the name of a built-in one; where it has none the
  /// built-in "plain", and note() says so. Throws Error with line and column for a template that
  /// cannot be parsed.
  static ChatTemplate from_vocabulary(const Vocabulary& vocabulary);
  /// name: the file's, for errors.
  static ChatTemplate parse(std::string_view source, std::string name, TemplateTokens tokens);
  /// One of builtin_names(); nothing for other names.
  static std::optional<ChatTemplate> builtin(std::string_view name, TemplateTokens tokens);
  static std::string builtin_names();  ///< "chatml, llama2, …"

  /// The conversation. Only what the template itself wrote is trusted there: contents never are,
  /// and of the roles only the usual ones, as templates build markers of them. A content that is
  /// missing beside calls of tools is "", unless the template asks for that. Throws Error with line
  /// and column where the template fails or refuses the conversation.
  [[nodiscard]] jinja::Text render(const std::vector<ChatMessage>& messages,
                                   const RenderOptions& options) const;
  /// Token ids of render(): markers become control tokens, what users wrote never does (no
  /// injection of control tokens).
  [[nodiscard]] std::vector<TokenId> encode(const Tokenizer& tokenizer,
                                            const std::vector<ChatMessage>& messages,
                                            const RenderOptions& options) const;
  void set_tokens(TemplateTokens tokens) {
    tokens_ = std::move(tokens);
  }  ///< in place of the model's
  /// Texts that end an answer although the model has no token for it.
  [[nodiscard]] const std::vector<std::string>& stops() const { return stops_; }
  /// How the answers of the template's models are built, known by the markers that it names.
  /// variables: as in RenderOptions; without "tools" in them no calls are expected.
  [[nodiscard]] AnswerFormat answer_format(const std::string& variables = {}) const;
  /// Whether the template's text has this word, a variable's name say.
  [[nodiscard]] bool names(std::string_view word) const {
    return source_->find(word) != std::string::npos;
  }
  /// What the user should know about the choice of this template, or "".
  [[nodiscard]] const std::string& note() const { return note_; }

 private:
  ChatTemplate(std::shared_ptr<const jinja::Template> parsed, TemplateTokens tokens)
      : template_(std::move(parsed)), tokens_(std::move(tokens)) {}
  [[nodiscard]] jinja::Text render_messages(const std::vector<ChatMessage>& messages,
                                            const RenderOptions& options) const;
  [[nodiscard]] jinja::Text render_values(std::vector<jinja::Value> messages,
                                          const RenderOptions& options) const;

  std::shared_ptr<const jinja::Template> template_;
  TemplateTokens tokens_;
  std::shared_ptr<const std::string> source_;
  AnswerFormat format_;
  std::vector<std::string> stops_;
  std::string note_;
};

/// Token ids of a rendered conversation, BOS first where the vocabulary wants one and the template
/// wrote none. No EOS whatever the vocabulary says: the template ends the turns, and the last one
/// is the model's to end.
std::vector<TokenId> encode_rendered(const Tokenizer& tokenizer, const jinja::Text& rendered);

/// How many of a conversation's first tokens belong to its leading system message (0 if it has
/// none): what a context that drops its oldest part should keep.
std::size_t system_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                          const std::vector<ChatMessage>& messages, const RenderOptions& options);

}  // namespace cria
