// Passes tool calls on while the model writes them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/chat/call_format.h"
#include "tokenizer/chat/call_values.h"

namespace cria {

/// Finds the longest prefix of a growing object that is certainly JSON.
class JsonPrefix {
 public:
  /// Gets the text so far, from the first byte of the object; each call continues where the last
  /// one stopped. Returns the number of certain bytes: a number or word that may go on is not.
  std::size_t certain(std::string_view text);
  [[nodiscard]] bool complete() const { return complete_; }

 private:
  bool take(std::string_view text);
  bool end_word(std::string_view text);

  std::size_t at_ = 0, word_ = std::string_view::npos, depth_ = 0;
  bool in_string_ = false, escaped_ = false, complete_ = false, broken_ = false;
};

/// Reads the text of one call, or of a list of calls, while it grows. A call begins when its name
/// and the beginning of its arguments have arrived; then it stays a call, whatever follows.
/// Arguments in other notations than JSON come at the end.
class CallStream {
 public:
  using Sink = std::function<void(const CallPiece& piece)>;

  /// text: all since the marker. Passes on the new pieces; the sink may be empty.
  void read(const CallFormat& format, std::string_view text, OfferedTools& tools, const Sink& sink);
  /// Passes on what is missing of the calls that were parsed at the end. Returns the calls as they
  /// were passed on.
  std::vector<ToolCall> finish(std::vector<ToolCall> parsed, const Sink& sink);
  /// Passes on the rest of a truncated text. Returns the calls, of which the last may be
  /// incomplete.
  std::vector<ToolCall> cut(const CallFormat& format, std::string_view text, const Sink& sink);

 private:
  struct Opening {
    std::string name;
    std::size_t arguments = std::string_view::npos;  // where they begin, if they have
  };

  static std::optional<Opening> opening(const CallFormat& format, std::string_view text);
  void read_json(const CallFormat& format, std::string_view text, OfferedTools& tools,
                 const Sink& sink);
  void read_tagged(const CallFormat& format, std::string_view text, OfferedTools& tools,
                   const Sink& sink);
  void read_growing(const CallFormat& format, std::string_view text, OfferedTools& tools,
                    const Sink& sink);
  bool next_object(std::string_view text);
  void begin(std::string name, const Sink& sink);
  void add(std::string_view arguments, const Sink& sink);
  void add_argument(const std::string& json, const Sink& sink);

  std::vector<ToolCall> begun_;
  bool open_ = false;     // the last call goes on
  bool between_ = false;  // after a call's arguments, in a list
  bool at_end_only_ = false;
  std::size_t object_ = 0;  // where the current object begins
  std::size_t at_ = 0;      // where its arguments begin; tagged: the current argument
  JsonPrefix prefix_;
  std::string name_, argument_;  // tagged: the tool, and what was passed on of the argument
};

}  // namespace cria
