// An answer's tokens as thinking, answer and calls of tools.
#pragma once

#include "tokenizer/chat/answer_splitter.h"
#include "tokenizer/chat/call_scanner.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// Text in whole UTF-8 characters, split by the model's format; control tokens count as markers
/// only.
class AnswerReader {
 public:
  struct Sink {
    std::function<void(AnswerPart part, std::string_view text)>
        text;                                        ///< thinking or answer, never empty
    std::function<void(const ToolCall& call)> call;  ///< whole, without an id
  };

  /// opened: the prompt ends inside of thinking.
  AnswerReader(const Tokenizer& tokenizer, const AnswerFormat& format, bool opened);

  void push(TokenId token, const Sink& sink);
  /// What is still held back, at the end of the answer. cut: it was to go on; a call between
  /// markers that has begun is dropped then.
  void finish(const Sink& sink, bool cut = false);
  [[nodiscard]] bool thinking() const { return splitter_.thinking(); }
  /// Whether what comes next is the answer, or white space before it.
  [[nodiscard]] bool answer_next() const { return splitter_.answer_next(); }
  [[nodiscard]] bool answering() const { return splitter_.answering() && !scanner_.in_call(); }

 private:
  void take(AnswerPart part, std::string_view text, std::string_view receiver, const Sink& sink);
  void end_message(const Sink& sink);
  static CallScanner::Sink scanner_sink(const Sink& sink);

  const Tokenizer& tokenizer_;
  bool has_markers_;
  StreamDecoder decoder_;
  AnswerSplitter splitter_;
  CallScanner scanner_;
  ToolCall message_;  // to a tool, in a channel: what has come of it
};

}  // namespace cria
