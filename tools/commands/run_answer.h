// The answers of `cria run`: its options, one answer streamed, or several choices.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/answer.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/wrap.h"

namespace cria::tools {

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  TextInput prompt;
  TemplateVariables variables;
  std::string messages, system, chat_template, session_file;
  std::optional<std::size_t> logprobs;
  std::size_t choices = 0;  ///< answers to the prompt; 0: one, streamed
  bool chat = false, raw = false, escapes = false, json = false, stream_json = false;
  bool show_thinking = false, show_prompt = false;
};

/// The prompt: a conversation with a template, or without one the tokens of a text to continue.
struct RunPrompt {
  std::vector<ChatMessage> messages;
  ChatOptions how;
  std::vector<TokenId> tokens;
  std::vector<std::string> notes;  ///< on the template
  std::string variables;           ///< of the conversation, as a JSON object, or ""
  bool continues = false;          ///< the conversation of a session file
};

/// Writes an answer to stdout, piece by piece and at its end, as text or JSON. What it is given
/// must outlive it.
class RunOutput {
 public:
  /// notes: of the template, said on stderr before the first piece.
  RunOutput(const RunOptions& options, const AnswerFacts& facts, std::vector<std::string>& notes)
      : options_(options), facts_(facts), notes_(notes), view_(is_terminal(stdout) && facts.chat) {}

  void show(AnswerPart part, std::string_view piece);
  void show(const ToolCall& call);
  void finish(const GenerateResult& result);

 private:
  void print_notes();

  const RunOptions& options_;
  const AnswerFacts& facts_;
  std::vector<std::string>& notes_;
  AnswerView view_;  // a terminal shows whole words; a raw text has the model's lines
  std::size_t calls_ = 0;
};

/// Prints notes on a complete answer to stderr. chat: it is a message, not a continued text.
void print_answer_notes(const GenerateResult& result, const RunOptions& options, bool chat);

/// Computes options.choices answers on one engine with consecutive seeds. Each equals a single
/// answer with its seed. Writes them in the order of their seeds. wanted: options of the first.
void answer_several(const RunOptions& options, const Model& model, RunPrompt& prompt,
                    const GenerateOptions& wanted);

}  // namespace cria::tools
