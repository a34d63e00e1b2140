#include "tokenizer/chat/answer_reader.h"

#include <utility>

#include "tokenizer/chat/call_values.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {
namespace {

std::string_view tool_of(std::string_view receiver) {
  constexpr std::string_view kTools = "functions.";
  if (receiver.starts_with(kTools)) receiver.remove_prefix(kTools.size());
  return receiver;
}

}  // namespace

AnswerReader::AnswerReader(const Tokenizer& tokenizer, const AnswerFormat& format, bool opened)
    : tokenizer_(tokenizer),
      has_markers_(format.thinks() || format.calls != CallForm::None),
      decoder_(tokenizer, true),
      splitter_(format, opened),
      scanner_(format.calls, format.tools) {}

void AnswerReader::push(TokenId token, const Sink& sink) {
  const auto split = [&](AnswerPart part, std::string_view text, std::string_view receiver) {
    take(part, text, receiver, sink);
  };
  const std::string text = decoder_.push(token);
  if (!text.empty()) return splitter_.push(text, split);
  if (!has_markers_ || !tokenizer_.piece(token).empty()) return;
  splitter_.push(decoder_.finish(),
                 split);  // bytes of an incomplete character come before the marker
  const std::string control = tokenizer_.piece(token, true);
  if (scanner_.names(control))
    splitter_.push(control, split);
  else
    splitter_.push_control(control, split);
  if (control == "<|end|>" || control == "<|start|>" || control == "<|call|>") end_message(sink);
  if (message_.name.empty() && control == "<|message|>")
    message_.name = tool_of(splitter_.receiver());  // its text may be empty
}

void AnswerReader::finish(const Sink& sink, bool cut) {
  const auto split = [&](AnswerPart part, std::string_view text, std::string_view receiver) {
    take(part, text, receiver, sink);
  };
  splitter_.push(decoder_.finish(), split);
  splitter_.finish(split);
  if (cut && without_spaces(message_.arguments).empty()) message_ = {};
  end_message(sink);
  scanner_.finish(scanner_sink(sink), cut);
}

CallScanner::Sink AnswerReader::scanner_sink(const Sink& sink) {
  return {[&sink](std::string_view text) { sink.text(AnswerPart::Answer, text); }, sink.call};
}

void AnswerReader::take(AnswerPart part, std::string_view text, std::string_view receiver,
                        const Sink& sink) {
  if (part != AnswerPart::Call) end_message(sink);
  switch (part) {
    case AnswerPart::Thinking:
      sink.text(part, text);
      break;
    case AnswerPart::Answer:
      scanner_.push(text, scanner_sink(sink));
      break;
    case AnswerPart::Call: {
      const std::string_view tool = tool_of(receiver);
      if (message_.name != tool) end_message(sink);
      message_.name = tool;
      message_.arguments += text;
      break;
    }
  }
}

void AnswerReader::end_message(const Sink& sink) {
  if (message_.name.empty()) return;
  ToolCall call = std::exchange(message_, {});
  if (without_spaces(call.arguments).empty()) call.arguments = "{}";
  if (auto closed = closed_json(call.arguments)) call.arguments = std::move(*closed);
  sink.call(call);
}

}  // namespace cria
