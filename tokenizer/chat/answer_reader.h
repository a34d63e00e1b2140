// Reads the tokens of an answer as thinking, text and tool calls.
#pragma once

#include "tokenizer/chat/answer_splitter.h"
#include "tokenizer/chat/call_scanner.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// Emits text in complete UTF-8 characters, split by the model's format. Control tokens only count
/// as markers.
class AnswerReader {
 public:
  struct Sink {
    std::function<void(AnswerPart part, std::string_view text)>
        text;                                        ///< thinking or answer, never empty
    std::function<void(const ToolCall& call)> call;  ///< complete, without an id
  };

  /// opened: the prompt ends inside of thinking.
  AnswerReader(const Tokenizer& tokenizer, const AnswerFormat& format, bool opened);

  void push(TokenId token, const Sink& sink);
  /// Emits what is still held back at the end of the answer. cut: the answer is truncated; an
  /// incomplete call between markers is dropped.
  void finish(const Sink& sink, bool cut = false);
  [[nodiscard]] bool thinking() const { return splitter_.thinking(); }
  /// True if the next text is the answer, or white space before it.
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
  ToolCall message_;  // a message to a tool in a channel, so far
};

}  // namespace cria
