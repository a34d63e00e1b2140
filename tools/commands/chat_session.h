// A conversation with a model: its messages, what happens when they outgrow the context, and the
// commands of a chat, which begin with a slash.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/session.h"
#include "tools/model_store.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/terminal/line_reader.h"

namespace cria::tools {

struct ChatArguments {
  ModelOptions model;
  SamplingOptions sampling;
  TemplateVariables variables;
  std::string system, chat_template, session_file;
  std::string prompt;  ///< the first message; "": the user types it
  bool no_template = false, show_prompt = false, show_thinking = false, hide_thinking = false;
};

class ChatSession {
 public:
  /// Model and session must outlive it. forget: drop the oldest exchanges when the context is full,
  /// even without --context-shift.
  ChatSession(const Model& model, Session& session, const ChatArguments& arguments,
              const GenerateOptions& generate, bool forget);

  /// Answers a message; both join the conversation (with what the model thought, which its template
  /// leaves out again), or neither if the answer was interrupted before it began. Throws Error, and
  /// forgets the message, if it does not fit.
  GenerateResult answer(const std::string& message, const TextSink& sink);
  /// Answers the last message again with another seed. Throws Error without a message.
  GenerateResult retry(const TextSink& sink);
  /// Removes the last message and its answer; returns the message. Throws Error without a message.
  std::string undo();
  void reset();                              ///< forgets all but the system message
  void set_system(const std::string& text);  ///< "": none
  /// Takes that of --system. False if the conversation keeps its own.
  bool set_system_option(const std::string& text, const Command& command);
  void save(const std::string& path) const;
  /// Continues the conversation of a file. The system message stays if the file has none. Returns
  /// notes for the user.
  std::vector<std::string> load(const std::string& path);
  /// The conversation with its keys and values: after resume() only what is new is evaluated. Throw
  /// Error.
  void keep(const std::string& path) const;
  void resume(const std::string& path);

  /// From now on the oldest exchanges are forgotten when the context is full.
  void forget_when_full() { how_.drop_oldest = true; }
  /// Forgets the oldest exchanges until half of the context is free; returns how many messages.
  std::size_t compact();
  /// Sets the generation options of later answers.
  void generate_with(const GenerateOptions& options) { generate_ = options; }

  /// Sets the sink of the model's thinking.
  void on_thinking(TextSink sink) { on_thinking_ = std::move(sink); }
  /// Calls observer with every prompt before it is evaluated.
  void observe_prompts(decltype(ChatOptions::on_prompt) observer) {
    how_.on_prompt = std::move(observer);
  }

  [[nodiscard]] const std::vector<ChatMessage>& messages() const { return talk_.messages; }
  [[nodiscard]] bool has_system() const { return has_system_message(talk_.messages); }
  [[nodiscard]] std::string greeting() const;
  std::vector<std::string>& notes() {
    return notes_;
  }  ///< notes on the template, for print_and_clear()
  [[nodiscard]] std::string stats() const;
  [[nodiscard]] std::string full_text() const;       ///< explains a full context and the ways out
  [[nodiscard]] std::string forgotten_text() const;  ///< explains why oldest messages are dropped
  [[nodiscard]] std::string context_text() const;    ///< "120 of 512 tokens"

 private:
  [[nodiscard]] std::size_t tokens() const;
  [[nodiscard]] std::string larger_context_text() const;
  std::size_t last_question() const;
  GenerateResult answer_last(const GenerateOptions& options, const TextSink& sink);

  const Model& model_;
  Session& session_;
  ChatOptions how_;
  TemplateVariables variables_;
  TextSink on_thinking_;
  std::vector<std::string> notes_;
  GenerateOptions generate_;
  Conversation talk_;
  std::optional<GenerateResult> last_;
  std::size_t evaluated_ = 0;  // tokens, since the start
  std::size_t retries_ = 0;    // times the last message was answered again
  bool evaluated_all_ = true;  // the session holds this conversation, not an earlier one
};

/// Prints the program's own lines on stderr, wrapped to the terminal. indent: of continued lines.
void say(const std::string& text, std::size_t indent = 0);

/// The state that chat commands change.
struct ChatState {
  ChatSession& chat;
  LineReader& reader;
  bool interactive;
  SamplingOptions sampling;  ///< as it is now
  TextSink sink;             ///< for answers
  bool ended = false;        ///< by /exit
  bool answered = false;     ///< by /retry: `answer` is one that is not told yet
  GenerateResult answer = {};
};

/// True for a command: a slash and a word of letters, or a word that ends a chat.
bool is_command(const TypedText& typed);
/// Throws Error for an unknown command, and what commands throw.
void run_command(ChatState& state, const std::string& line);
/// For LineReader: commands, and what they are about.
std::vector<std::string> complete_command(const std::string& line);

}  // namespace cria::tools
