#include "tokenizer/chat/answer_reader.h"

namespace cria {

void AnswerReader::push(TokenId token, const AnswerSplitter::Sink& sink) {
  const std::string text = decoder_.push(token);
  if (!text.empty()) return splitter_.push(text, sink);
  if (!has_markers_ || !tokenizer_.piece(token).empty()) return;
  splitter_.push_control(tokenizer_.piece(token, true), sink);
}

void AnswerReader::finish(const AnswerSplitter::Sink& sink) {
  splitter_.push(decoder_.finish(), sink);
  splitter_.finish(sink);
}

}  // namespace cria
