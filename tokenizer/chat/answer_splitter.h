// Tells thinking from answer while both arrive in pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tokenizer/chat/answer_format.h"

namespace cria {

/// Markers are found across the pieces' boundaries; none is ever emitted, nor what only looked like
/// the beginning of one before that is clear. White space around thinking, and before an answer
/// that follows thinking, belongs to the markers.
class AnswerSplitter {
 public:
  /// Gets pieces of text, never empty. receiver: of a Call, what the channel names
  /// ("functions.get_weather").
  using Sink =
      std::function<void(AnswerPart part, std::string_view text, std::string_view receiver)>;

  /// opened: the prompt ends inside of thinking.
  AnswerSplitter(AnswerFormat format, bool opened);

  void push(std::string_view text, const Sink& sink);
  /// A control token as it is written. One that is no part of a marker says nothing.
  void push_control(std::string_view marker, const Sink& sink);
  /// What is still held back, at the end of the answer.
  void finish(const Sink& sink);
  /// Of the message to a tool that has begun, perhaps without a text so far; else "".
  [[nodiscard]] const std::string& receiver() const { return receiver_; }
  /// Whether what comes next is thinking, as far as can be told.
  [[nodiscard]] bool thinking() const {
    return state_ == State::Thinking || (state_ == State::Text && part_ == AnswerPart::Thinking);
  }
  /// Likewise whether it is the answer: neither thinking, nor a call, nor something between them.
  [[nodiscard]] bool answering() const {
    return state_ == State::Start || state_ == State::Opening || state_ == State::Answer ||
           state_ == State::Wrapped || (state_ == State::Text && part_ == AnswerPart::Answer);
  }
  /// The answer, or white space between thinking and it.
  [[nodiscard]] bool answer_next() const { return state_ == State::Gap || answering(); }

 private:
  enum class State : std::uint8_t {
    Start,     ///< nothing yet but white space, or the beginning of `open`
    Thinking,  ///< until `close`
    Gap,       ///< after it: white space, perhaps `answer_open`
    Wrapped,   ///< after that, until `answer_close`
    Answer,    ///< the rest of a Block
    Opening,   ///< nothing yet: the prompt may have ended inside of a channel's header
    Header,    ///< of a channel, until <|message|>
    Text,      ///< of a channel, until <|end|>
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
  void begin_text(bool thinking, const Sink& sink);

  AnswerFormat format_;
  State state_;
  std::string pending_;
  std::string header_;                    ///< what stands before <|message|>
  AnswerPart part_ = AnswerPart::Answer;  ///< of the channel
  std::string receiver_;                  ///< of the channel
  bool at_start_ = true;                  ///< nothing of this part was emitted
};

}  // namespace cria
