// Turns an answer's tokens into text for the sinks, up to a stop string.
#pragma once

#include "engine/session.h"
#include "tokenizer/chat/answer_reader.h"

namespace cria {

/// Finds stop strings in text that arrives in pieces.
class StopScanner {
 public:
  /// Ignores empty stop strings.
  explicit StopScanner(std::vector<std::string> stops);
  /// Returns the text that is safe to emit after this piece. Holds back a partial stop string.
  std::string push(std::string_view piece);
  /// Returns the text held back, at the end.
  std::string finish();
  /// The stop string found, or "". It and later text are never returned. The earliest one counts;
  /// on a tie, the longest.
  [[nodiscard]] const std::string& found() const { return found_; }

 private:
  [[nodiscard]] std::size_t held_back() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::string found_;
};

/// Stop strings are matched in the answer only, not in thinking or tool calls.
class AnswerOutput {
 public:
  /// Must not outlive options and sink.
  AnswerOutput(const Tokenizer& tokenizer, const GenerateOptions& options, const TextSink& sink);

  /// Reserves memory for the text of `tokens` tokens.
  void reserve(std::size_t tokens) { text_.reserve(8 * tokens); }
  void push(TokenId token);
  /// From now on, all tokens are answer text, without markers or stop strings.
  void begin_verbatim();
  /// Emits the text held back and moves text, reasoning, calls and stop string to the result. The
  /// result's log-probabilities must belong to tokens with in_answer().
  void finish(GenerateResult& result);
  [[nodiscard]] const std::string& stop() const { return scanner_.found(); }
  /// True if a sink returned false.
  [[nodiscard]] bool refused() const { return refused_; }
  /// True if the answer, or white space before it, comes next.
  [[nodiscard]] bool answer_next() const { return reader_.answer_next(); }
  [[nodiscard]] bool thinking() const { return reader_.thinking(); }
  /// True if the last token belongs to the answer, as far as is known yet.
  [[nodiscard]] bool in_answer() const { return in_answer_; }

 private:
  AnswerReader::Sink reader_sink();
  void take(AnswerPart part, std::string_view text);
  void take(ToolCall call);
  void take(const CallPiece& piece);
  void take_cut(ToolCall call);
  void show(std::string_view piece, std::string& all, const TextSink& sink);

  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  const TextSink& sink_;
  AnswerReader reader_;
  StopScanner scanner_;
  std::optional<StreamDecoder> verbatim_;
  std::string text_, reasoning_;
  std::vector<ToolCall> calls_, cut_calls_;
  std::size_t begun_calls_ = 0;
  std::size_t reasoning_tokens_ = 0;
  std::size_t answer_tokens_ = 0;
  std::size_t not_answer_ = 0;  // leading answer tokens that turned out to open the thinking
  const bool only_calls_;       // the constraint allows only calls, no text
  bool in_answer_ = false, refused_ = false;
  bool cut_ = false;  // ended before the model did
};

}  // namespace cria
