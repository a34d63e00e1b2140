// What becomes of an answer's tokens: text for whoever listens, up to a stop text.
#pragma once

#include "engine/session.h"
#include "engine/session/stop_scanner.h"
#include "tokenizer/chat/answer_reader.h"

namespace cria {

/// Stop texts are looked for in the answer alone: what a model thinks, or calls a tool with, may
/// hold them.
class AnswerOutput {
 public:
  /// Options and sink must outlive it.
  AnswerOutput(const Tokenizer& tokenizer, const GenerateOptions& options, const TextSink& sink);

  /// Room for the text of so many tokens, most of them short.
  void reserve(std::size_t tokens) { text_.reserve(8 * tokens); }
  void push(TokenId token);
  /// From now on all is the answer as it is: no markers, no stop texts.
  void begin_verbatim();
  /// Gives out what was held back, and writes text, reasoning, calls and stop text to the result.
  /// Log-probabilities there are those of tokens after which in_answer().
  void finish(GenerateResult& result);
  [[nodiscard]] const std::string& stop() const { return scanner_.found(); }
  /// A sink wants no more.
  [[nodiscard]] bool refused() const { return refused_; }
  /// Whether what comes next is the answer, or white space before it.
  [[nodiscard]] bool answer_next() const { return reader_.answer_next(); }
  [[nodiscard]] bool thinking() const { return reader_.thinking(); }
  /// Whether the last token belongs to the answer, as far as can be told.
  [[nodiscard]] bool in_answer() const { return in_answer_; }

 private:
  AnswerReader::Sink reader_sink();
  void take(AnswerPart part, std::string_view text);
  void take(ToolCall call);
  void show(std::string_view piece, std::string& all, const TextSink& sink);

  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  const TextSink& sink_;
  AnswerReader reader_;
  StopScanner scanner_;
  std::optional<StreamDecoder> verbatim_;
  std::string text_, reasoning_;
  std::vector<ToolCall> calls_;
  std::size_t reasoning_tokens_ = 0;
  std::size_t answer_tokens_ = 0,
              not_answer_ = 0;  // the first of those turned out to open the thinking
  const bool only_calls_;       // the constraint has no text beside them
  bool in_answer_ = false, refused_ = false;
  bool cut_ = false;  // the answer was to go on
};

}  // namespace cria
