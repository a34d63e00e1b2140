// Where the lines of a chat come from: an editable prompt with history on a terminal, else plain
// stdin.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cria::tools {

enum class Read {
  Line,
  Cleared,    ///< Ctrl-C threw away what was typed
  Interrupt,  ///< Ctrl-C where nothing was typed
  End
};

/// What was typed or pasted.
struct TypedText {
  std::string text;
  /// It was pasted, edited elsewhere or stands between two lines of """: text as it is, in which
  /// nothing is a command or another mark.
  bool literal = false;
  bool unclosed = false;  ///< the input ended before the """ that closes it
};

/// What a line (up to the cursor) may be completed to; none: nothing is known.
using Completer = std::function<std::vector<std::string>(const std::string& line)>;

class LineReader {
 public:
  virtual ~LineReader() = default;
  /// The next line without its newline; a pasted or edited one may hold newlines. The prompt is
  /// shown with a space after it.
  virtual Read line(const std::string& prompt, TypedText& out) = 0;
  /// Keeps a message, as it could be typed, for the history.
  virtual void remember(const std::string& message) = 0;

  /// SIGINT must be caught (catch_interrupts): line() returns then.
  static std::unique_ptr<LineReader> create(bool terminal, Completer completer = {});
};

/// A whole message: lines that end in a backslash go on, and so does everything between two lines
/// of """. The end of the input ends such a message too, and the message is returned. The history
/// brings it back as the same message: what is text only because it was pasted then stands between
/// """.
Read read_message(LineReader& reader, TypedText& out);

}  // namespace cria::tools
