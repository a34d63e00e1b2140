// An answer's tokens as thinking, answer and calls.
#pragma once

#include "tokenizer/chat/answer_splitter.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// Text in whole UTF-8 characters, split by the model's format; control tokens count as markers only.
class AnswerReader {
 public:
  /// opened: the prompt ends inside of thinking.
  AnswerReader(const Tokenizer& tokenizer, const AnswerFormat& format, bool opened)
      : tokenizer_(tokenizer),
        has_markers_(format.kind != AnswerFormat::Kind::Plain),
        decoder_(tokenizer, true),
        splitter_(format, opened) {}

  void push(TokenId token, const AnswerSplitter::Sink& sink);
  /// What is still held back, at the end of the answer.
  void finish(const AnswerSplitter::Sink& sink);
  [[nodiscard]] bool thinking() const { return splitter_.thinking(); }
  [[nodiscard]] bool answering() const { return splitter_.answering(); }

 private:
  const Tokenizer& tokenizer_;
  bool has_markers_;
  StreamDecoder decoder_;
  AnswerSplitter splitter_;
};

}  // namespace cria
