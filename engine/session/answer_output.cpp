#include "engine/session/answer_output.h"

#include <utility>

namespace cria {

void AnswerOutput::push(TokenId token) {
  const bool thought = reader_.thinking();
  reader_.push(token, [this](AnswerPart part, std::string_view text, std::string_view) { take(part, text); });
  const bool thinks = reader_.thinking();
  if (thinks && reasoning_tokens_ == 0 && text_.empty()) not_answer_ = answer_tokens_;
  reasoning_tokens_ += thought || thinks ? 1 : 0;
  in_answer_ = !thought && !thinks && reader_.answering();
  answer_tokens_ += in_answer_ ? 1 : 0;
}

void AnswerOutput::finish(GenerateResult& result) {
  if (scanner_.found().empty()) {
    reader_.finish([this](AnswerPart part, std::string_view text, std::string_view) { take(part, text); });
    show(scanner_.finish(), text_, sink_);
  }
  result.text = std::move(text_);
  result.reasoning = std::move(reasoning_);
  result.reasoning_tokens = reasoning_tokens_;
  result.stop = scanner_.found();
  const auto first = result.logprobs.begin();
  if (not_answer_ <= result.logprobs.size())
    result.logprobs.erase(first, first + static_cast<std::ptrdiff_t>(not_answer_));
}

void AnswerOutput::take(AnswerPart part, std::string_view text) {
  if (part == AnswerPart::Thinking) show(text, reasoning_, options_.on_thinking);
  if (part == AnswerPart::Answer) show(scanner_.push(text), text_, sink_);
}

void AnswerOutput::show(std::string_view piece, std::string& all, const TextSink& sink) {
  if (piece.empty() || refused_) return;
  all += piece;
  refused_ = sink && !sink(piece);
}

}  // namespace cria
