// Finds calls of tools in an answer while it arrives in pieces.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tokenizer/chat/call_form.h"
#include "tokenizer/chat/json_slices.h"
#include "tokenizer/chat/offered_tools.h"

namespace cria {

/// Markers are found across the pieces' boundaries and never shown; white space before a call and
/// after it belongs to the markers. What looked like a call and is none is text, marker and all.
class CallScanner {
 public:
  struct Sink {
    std::function<void(std::string_view text)> text;  ///< never empty
    std::function<void(const ToolCall& call)> call;   ///< whole, without an id
  };

  /// tools: the JSON array that the model was offered, or "". The form is one with markers in the
  /// text, or None: all is text.
  CallScanner(CallForm form, std::string tools);

  void push(std::string_view text, const Sink& sink);
  /// What is still held back, at the end of the answer. cut: it was to go on; a call that has begun
  /// is dropped then.
  void finish(const Sink& sink, bool cut = false);
  /// Whether a control token, as it is written, is a part of a marker.
  [[nodiscard]] bool names(std::string_view control) const;
  [[nodiscard]] bool in_call() const { return state_ == State::Call; }

 private:
  enum class State : std::uint8_t {
    Start,  ///< of an answer that is all call or all text
    Text,
    Around,  ///< behind the marker around all calls
    Call,    ///< behind a call's own
    After,   ///< white space, the closing marker, what stands between two calls
    Plain,   ///< the rest is text
  };

  bool step(const Sink& sink, bool ended);
  bool start(bool ended);
  bool text(const Sink& sink, bool ended);
  bool around(const Sink& sink, bool ended);
  bool call(const Sink& sink, bool ended);
  bool after(bool ended);
  /// One past the last byte of what stands between the markers; nothing: it goes on. marked_end:
  /// without JSON.
  [[nodiscard]] std::optional<std::size_t> json_end();
  [[nodiscard]] std::optional<std::size_t> marked_end();
  [[nodiscard]] std::size_t held_back() const;
  void emit(std::size_t bytes, const Sink& sink);
  void take_marker(std::size_t bytes);
  void begin_call(std::size_t marker_bytes);

  const CallFormFacts* facts_;  // null: no form
  OfferedTools tools_;
  State state_;
  std::string pending_;
  std::string
      marker_;   // that opened the call; with the one around all calls, and their white space
  JsonEnd end_;  // of the call
  std::size_t json_at_ = 0;   // where its JSON begins
  std::size_t seen_ = 0;      // of a call without JSON: no marker begins before
  bool in_argument_ = false;  // there
  bool drop_space_ = false;   // a call has just ended
  bool cut_ = false;
};

}  // namespace cria
