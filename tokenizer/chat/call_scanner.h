// Finds tool calls in an answer while it arrives in pieces, and parses them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/answer_format.h"
#include "tokenizer/chat/call_format.h"
#include "tokenizer/chat/call_stream.h"
#include "tokenizer/chat/call_values.h"

namespace cria {

/// Markers are found across the boundaries of pieces and are not part of the text, nor is white
/// space before and after a call. A false start is emitted as text, marker included.
class CallScanner {
 public:
  struct Sink {
    /// Thinking or answer, never empty; the scanner emits answers only.
    std::function<void(AnswerPart part, std::string_view text)> text;
    std::function<void(const ToolCall& call)> call;           ///< complete, without an id
    std::function<void(const CallPiece& piece)> piece = {};   ///< of a call, as it is written
    std::function<void(const ToolCall& call)> cut_call = {};  ///< as far as it is written
  };

  /// tools: the JSON array that the model was offered, or "". With None and Channels, which has no
  /// markers in the text, everything is text.
  CallScanner(CallForm form, std::string tools);

  void push(std::string_view text, const Sink& sink);
  /// Emits what is still held back at the end of the answer. cut: the answer is truncated; an
  /// incomplete call goes to cut_call, if its name is complete.
  void finish(const Sink& sink, bool cut = false);
  /// True if a control token, as text, is part of a marker.
  [[nodiscard]] bool names(std::string_view control) const;
  [[nodiscard]] bool in_call() const { return state_ == State::Call; }

 private:
  enum class State : std::uint8_t {
    Start,    ///< the answer may be an unmarked call
    Text,     ///< looks for a marker
    Section,  ///< after section_open
    Call,     ///< after open
    After,    ///< after a call: white space, its closing marker, a separator
    Plain,    ///< the rest is text
  };

  bool step(const Sink& sink, bool ended);
  bool start(bool ended);
  bool text(const Sink& sink, bool ended);
  bool section(const Sink& sink, bool ended);
  bool call(const Sink& sink, bool ended);
  bool after(bool ended);
  /// Return one past the last byte of the call; nullopt if it is incomplete.
  [[nodiscard]] std::optional<std::size_t> json_end();
  [[nodiscard]] std::optional<std::size_t> marked_end(bool ended);
  /// Returns the end of a call without its closing marker, at the end of the answer.
  [[nodiscard]] std::size_t end_of_rest() const;
  /// True if the text after the marker is not a call, or may not be one.
  bool plain_text(bool ended);
  [[nodiscard]] bool has_json() const;
  [[nodiscard]] bool unmarked_json() const;
  [[nodiscard]] std::size_t held_back() const;
  void emit(std::size_t bytes, const Sink& sink);
  void take_marker(std::size_t bytes);
  void begin_call(std::size_t marker_bytes);

  const CallFormat* format_;  // null: no markers in the text
  OfferedTools tools_;
  State state_;
  std::string pending_;
  std::string marker_;        // before the call, with the section's and their white space
  JsonEnd end_;               // end of the call's JSON
  CallStream stream_;         // its pieces
  std::size_t json_at_ = 0;   // where its JSON begins
  std::size_t seen_ = 0;      // without JSON: no marker begins before
  bool in_argument_ = false;  // at seen_
  bool fenced_ = false;       // its JSON is a block of code
  bool drop_space_ = false;   // a call has just ended
  bool cut_ = false;
};

}  // namespace cria
