// A conversation with a model: its messages, and what happens when they outgrow the context.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tokenizer/transcript.h"
#include "tools/common.h"
#include "tools/conversation.h"
#include "tools/sampling_options.h"

namespace cria::tools {

struct ChatOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::string system, chat_template, session_file;
  bool no_template = false, show_prompt = false;
};

class ChatSession {
 public:
  /// Model and session must outlive it. forget: drop the oldest exchanges when the context is full, even
  /// without --context-shift.
  ChatSession(const Model& model, Session& session, const ChatOptions& options,
              const GenerateOptions& generate, bool forget);

  /// Answers a message; both join the conversation. Throws Error, and forgets the message, where there is no
  /// room for it.
  GenerateResult answer(const std::string& message, const TextSink& sink);
  void reset();                              ///< forgets all but the system message
  void set_system(const std::string& text);  ///< "": none
  void save(const std::string& path) const;
  void load(const std::string& path);
  /// The conversation with its keys and values: after resume() only what is new is evaluated. Throw Error.
  void keep(const std::string& path) const;
  void resume(const std::string& path);

  /// Called with every prompt before it is evaluated: its text and its tokens.
  using PromptObserver = std::function<void(const std::string& text, std::span<const TokenId> tokens)>;
  void observe_prompts(PromptObserver observer) { observer_ = std::move(observer); }

  [[nodiscard]] const std::vector<ChatMessage>& messages() const { return talk_.messages; }
  [[nodiscard]] std::string greeting() const;
  std::string& note() { return note_; }  ///< of the template, for say_note()
  [[nodiscard]] std::string stats() const;
  [[nodiscard]] std::string full_text() const;  ///< what a full context means, and the ways out

 private:
  struct Prompt {
    std::string text;
    std::vector<TokenId> tokens;
  };
  Prompt prompt();
  [[nodiscard]] RenderOptions render_options() const;
  [[nodiscard]] bool has_system() const {
    return !talk_.messages.empty() && talk_.messages.front().role == "system";
  }
  bool forget_oldest();

  const Model& model_;
  Session& session_;
  std::optional<ChatTemplate> template_;  // none: plain text
  std::string note_;
  GenerateOptions generate_;
  bool forget_;
  Conversation talk_;
  Transcript transcript_;
  PromptObserver observer_;
  std::optional<GenerateResult> last_;
  std::size_t evaluated_ = 0;  // tokens, since the start
};

}  // namespace cria::tools
