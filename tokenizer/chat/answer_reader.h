// Splits an answer, while it arrives in pieces, into thinking, text and tool calls.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tokenizer/chat/answer_format.h"
#include "tokenizer/chat/call_scanner.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// Markers are found across the boundaries of pieces and never emitted; text that may begin a
/// marker is held back. White space around thinking, and before an answer that follows thinking,
/// belongs to the markers.
class AnswerSplitter {
 public:
  /// Gets non-empty pieces of text. receiver: the recipient of a Call, such as
  /// "functions.get_weather".
  using Sink =
      std::function<void(AnswerPart part, std::string_view text, std::string_view receiver)>;

  /// opened: the prompt ends inside of thinking.
  AnswerSplitter(AnswerFormat format, bool opened);

  void push(std::string_view text, const Sink& sink);
  /// Gets a control token as text; one that is not part of a marker is ignored.
  void push_control(std::string_view marker, const Sink& sink);
  /// Emits what is still held back at the end of the answer.
  void finish(const Sink& sink);
  /// Returns the recipient of the current message to a tool, else "".
  [[nodiscard]] const std::string& receiver() const { return receiver_; }
  /// True if the next text is thinking, as far as is known.
  [[nodiscard]] bool thinking() const {
    return state_ == State::Thinking || (state_ == State::Text && part_ == AnswerPart::Thinking);
  }
  /// True if the next text is the answer: not thinking, a call, or text between them.
  [[nodiscard]] bool answering() const {
    return state_ == State::Start || state_ == State::Opening || state_ == State::Answer ||
           state_ == State::Wrapped || (state_ == State::Text && part_ == AnswerPart::Answer);
  }
  /// True for the answer and for white space before it.
  [[nodiscard]] bool answer_next() const { return state_ == State::Gap || answering(); }

 private:
  enum class State : std::uint8_t {
    Start,     ///< only white space or a part of `open` so far
    Thinking,  ///< until `close`
    Gap,       ///< after it: white space, perhaps `answer_open`
    Wrapped,   ///< after that, until `answer_close`
    Answer,    ///< the rest of a Block
    Opening,   ///< nothing so far: the prompt may end in the header of a channel
    Header,    ///< header of a channel, until <|message|>
    Text,      ///< text of a channel, until <|end|>
  };

  void run(const Sink& sink, bool ended);
  bool start(bool ended);
  bool opening(bool ended);
  bool thinking_text(const Sink& sink, bool ended);
  bool gap(bool ended);
  bool wrapped_text(const Sink& sink, bool ended);
  bool until(std::string_view marker, AnswerPart part, const Sink& sink, bool ended);
  void emit(AnswerPart part, std::size_t bytes, const Sink& sink);
  void begin_message();
  void separate();
  void begin_text(bool thinking, const Sink& sink);

  AnswerFormat format_;
  State state_;
  std::string pending_;
  std::string header_;                    ///< text before <|message|>
  AnswerPart part_ = AnswerPart::Answer;  ///< part of the current channel
  std::string receiver_;                  ///< recipient of the current channel
  bool at_start_ = true;                  ///< this part has emitted nothing
  bool thought_ = false;                  ///< a message with thinking has begun
  bool answered_ = false;                 ///< a message with an answer has begun
};

/// Emits text in complete UTF-8 characters, split by the model's format. Control tokens only count
/// as markers.
class AnswerReader {
 public:
  using Sink = CallScanner::Sink;

  /// opened: the prompt ends inside of thinking.
  AnswerReader(const Tokenizer& tokenizer, const AnswerFormat& format, bool opened);

  void push(TokenId token, const Sink& sink);
  /// Emits what is still held back at the end of the answer. cut: the answer is truncated; an
  /// incomplete call between markers goes to cut_call, if its name is complete.
  void finish(const Sink& sink, bool cut = false);
  [[nodiscard]] bool thinking() const { return splitter_.thinking(); }
  /// True if the next text is the answer, or white space before it.
  [[nodiscard]] bool answer_next() const { return splitter_.answer_next(); }
  [[nodiscard]] bool answering() const { return splitter_.answering() && !scanner_.in_call(); }

 private:
  void take(AnswerPart part, std::string_view text, std::string_view receiver, const Sink& sink);
  void read_message(const Sink& sink);
  void end_message(const Sink& sink, bool cut = false);

  const Tokenizer& tokenizer_;
  bool has_markers_;
  StreamDecoder decoder_;
  AnswerSplitter splitter_;
  CallScanner scanner_;
  ToolCall message_;  // a message to a tool in a channel, so far
  JsonPrefix prefix_;
  std::optional<std::size_t> passed_on_;  // bytes of its arguments; nullopt: nor its name
};

}  // namespace cria
