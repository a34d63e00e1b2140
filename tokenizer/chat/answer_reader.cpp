#include "tokenizer/chat/answer_reader.h"

#include <algorithm>
#include <utility>

#include "tokenizer/chat/call_values.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {

namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>",
                           kEnd = "<|end|>";
// Follows <|start|>assistant, the end of prompts, in a message to a tool.
constexpr std::string_view kReceiver = " to=";
// Markers of Solar for thinking and answers.
constexpr std::string_view kBegin = "<|begin|>", kThink = "<|think|>", kContent = "<|content|>";

// Returns the word after `key` in the header of a channel: "to=functions.f", "<|channel|>analysis".
std::string word_after(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + key.size());
  return std::string(rest.substr(0, rest.find_first_of(" \t\r\n<")));
}

}  // namespace

AnswerSplitter::AnswerSplitter(AnswerFormat format, bool opened) : format_(std::move(format)) {
  switch (format_.kind) {
    case AnswerFormat::Kind::Plain:
      state_ = State::Answer;
      break;
    case AnswerFormat::Kind::Block:
      state_ = opened ? State::Thinking : State::Start;
      break;
    case AnswerFormat::Kind::Channels:
      state_ = opened ? State::Text : State::Opening;
      if (opened) part_ = AnswerPart::Thinking;
      thought_ = opened;
      break;
  }
}

void AnswerSplitter::push(std::string_view text, const Sink& sink) {
  if (state_ == State::Header) {
    header_ += text;
    return;
  }
  pending_ += text;
  run(sink, false);
}

void AnswerSplitter::push_control(std::string_view marker, const Sink& sink) {
  if (format_.kind == AnswerFormat::Kind::Block) {
    const std::string_view markers[] = {format_.open, format_.close};
    const bool known = std::ranges::any_of(
        markers, [&](std::string_view m) { return m.find(marker) != std::string_view::npos; });
    if (known) push(marker, sink);
    return;
  }
  if (format_.kind != AnswerFormat::Kind::Channels) return;
  if (marker == kMessage && state_ == State::Header) return begin_message();
  if (marker == kThink || marker == kContent) return begin_text(marker == kThink, sink);
  if (state_ == State::Header) {
    header_ += marker;
  } else if (marker == kStart || marker == kBegin || marker == kChannel) {
    run(sink, true);
    state_ = State::Header;
    header_ = marker;
  } else if (marker == kEnd) {
    run(sink, true);
    part_ = AnswerPart::Answer;
    receiver_.clear();
  }
}

void AnswerSplitter::finish(const Sink& sink) {
  // Text that only began like a header.
  if (state_ == State::Header && header_.starts_with(kReceiver) &&
      header_.find(kChannel) == std::string::npos) {
    pending_ = std::exchange(header_, {});
    state_ = State::Text;
  }
  run(sink, true);
}

void AnswerSplitter::begin_message() {
  receiver_ = word_after(header_, "to=");
  part_ = !receiver_.empty()                            ? AnswerPart::Call
          : word_after(header_, kChannel) == "analysis" ? AnswerPart::Thinking
                                                        : AnswerPart::Answer;
  state_ = State::Text;
  separate();
}

// Several messages of one part are paragraphs of it.
void AnswerSplitter::separate() {
  if (part_ != AnswerPart::Thinking && part_ != AnswerPart::Answer) return;
  bool& seen = part_ == AnswerPart::Thinking ? thought_ : answered_;
  if (std::exchange(seen, true)) pending_ = "\n\n";
}

void AnswerSplitter::begin_text(bool thinking, const Sink& sink) {
  if (state_ != State::Header) run(sink, true);
  part_ = thinking ? AnswerPart::Thinking : AnswerPart::Answer;
  state_ = State::Text;
}

void AnswerSplitter::run(const Sink& sink, bool ended) {
  for (bool more = true; more;) {
    switch (state_) {
      case State::Start:
        more = start(ended);
        break;
      case State::Thinking:
        more = thinking_text(sink, ended);
        break;
      case State::Gap:
        more = gap(ended);
        break;
      case State::Wrapped:
        more = wrapped_text(sink, ended);
        break;
      case State::Answer:
        emit(AnswerPart::Answer, pending_.size(), sink);
        more = false;
        break;
      case State::Opening:
        more = opening(ended);
        break;
      case State::Text:
        emit(part_, pending_.size(), sink);
        [[fallthrough]];
      case State::Header:
        more = false;
        break;
    }
  }
}

bool AnswerSplitter::start(bool ended) {
  const std::string_view text = std::string_view(pending_).substr(spaces_at_start(pending_));
  if (text.starts_with(format_.open)) {
    pending_ = text.substr(format_.open.size());
    state_ = State::Thinking;
    return true;
  }
  if (!ended && std::string_view(format_.open).starts_with(text)) return false;
  state_ = State::Answer;  // with its white space
  return true;
}

// An answer without a channel is text.
bool AnswerSplitter::opening(bool ended) {
  if (pending_.starts_with(kReceiver)) {
    state_ = State::Header;
    header_ = std::exchange(pending_, {});
    return false;
  }
  if (!ended && kReceiver.starts_with(pending_)) return false;
  state_ = State::Text;
  return true;
}

// Emits all but what may belong to the marker: its beginning, and the white space before it.
bool AnswerSplitter::until(std::string_view marker, AnswerPart part, const Sink& sink, bool ended) {
  if (at_start_) pending_.erase(0, spaces_at_start(pending_));
  const std::size_t at = pending_.find(marker);
  const bool found = at != std::string::npos;
  const std::size_t end = found ? at : pending_.size() - (ended ? 0 : begun(pending_, marker));
  const std::size_t shown = end - spaces_at_end(std::string_view(pending_).substr(0, end));
  if (shown > 0) at_start_ = false;
  emit(part, shown, sink);
  if (found) pending_.erase(0, at - shown + marker.size());
  return found;
}

bool AnswerSplitter::thinking_text(const Sink& sink, bool ended) {
  if (!until(format_.close, AnswerPart::Thinking, sink, ended)) return false;
  state_ = State::Gap;
  return true;
}

bool AnswerSplitter::gap(bool ended) {
  pending_.erase(0, spaces_at_start(pending_));
  const std::string_view around = format_.answer_open;
  if (pending_.starts_with(around) && !format_.answer_close.empty() &&
      !(pending_.empty() && !ended)) {
    pending_.erase(0, around.size());
    state_ = State::Wrapped;
    at_start_ = true;
    return true;
  }
  if (!ended &&
      (pending_.empty() || (pending_.size() < around.size() && around.starts_with(pending_))))
    return false;
  state_ = State::Answer;
  return true;
}

bool AnswerSplitter::wrapped_text(const Sink& sink, bool ended) {
  if (!until(format_.answer_close, AnswerPart::Answer, sink, ended)) return false;
  state_ = State::Gap;  // text that follows is shown
  format_.answer_open.clear();
  format_.answer_close.clear();
  return true;
}

void AnswerSplitter::emit(AnswerPart part, std::size_t bytes, const Sink& sink) {
  if (bytes == 0) return;
  const std::string text = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  sink(part, text, receiver_);
}

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
  end_message(sink, cut);
  scanner_.finish(sink, cut);
}

void AnswerReader::take(AnswerPart part, std::string_view text, std::string_view receiver,
                        const Sink& sink) {
  if (part != AnswerPart::Call) end_message(sink);
  switch (part) {
    case AnswerPart::Thinking:
      sink.text(part, text);
      break;
    case AnswerPart::Answer:
      scanner_.push(text, sink);
      break;
    case AnswerPart::Call: {
      const std::string_view tool = tool_of(receiver);
      if (message_.name != tool) end_message(sink);
      message_.name = tool;
      message_.arguments += text;
      read_message(sink);
      break;
    }
  }
}

// Passes on what is certain of the message to a tool.
void AnswerReader::read_message(const Sink& sink) {
  std::string& json = message_.arguments;
  if (!passed_on_) {
    json.erase(0, spaces_at_start(json));
    if (!json.starts_with('{')) return;
    passed_on_ = 0;
    if (sink.piece) sink.piece({message_.name, ""});
  }
  const std::size_t n = prefix_.certain(json);
  if (n > *passed_on_ && sink.piece)
    sink.piece({"", std::string_view(json).substr(*passed_on_, n - *passed_on_)});
  passed_on_ = n;
}

// Where the end does not continue what was passed on, the call keeps the model's text.
void AnswerReader::end_message(const Sink& sink, bool cut) {
  if (message_.name.empty()) return;
  ToolCall call = std::exchange(message_, {});
  const std::optional<std::size_t> passed_on = std::exchange(passed_on_, std::nullopt);
  const bool whole = prefix_.complete();
  prefix_ = {};
  const std::string certain = call.arguments.substr(0, passed_on.value_or(0));
  const auto pass_on_rest = [&] {
    if (!passed_on && sink.piece) sink.piece({call.name, ""});
    if (call.arguments.size() > certain.size() && sink.piece)
      sink.piece({"", std::string_view(call.arguments).substr(certain.size())});
  };
  if (cut && !whole) {
    pass_on_rest();
    if (sink.cut_call) sink.cut_call(call);
    return;
  }
  if (without_spaces(call.arguments).empty()) call.arguments = "{}";
  if (auto closed = closed_json(call.arguments)) call.arguments = std::move(*closed);
  if (!call.arguments.starts_with(certain)) call.arguments = certain;
  pass_on_rest();
  sink.call(call);
}

}  // namespace cria
