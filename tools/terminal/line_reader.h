// Messages typed by the user: lines from a pipe or a terminal, history, an external editor.
#pragma once
#include <histedit.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cria::tools {

/// Kept in $XDG_STATE_HOME/cria/history (or ~/.local/state/cria/history). Several chats at once add
/// to one file; each sees what was there when it began, and its own.
class MessageHistory {
 public:
  MessageHistory();
  ~MessageHistory();
  MessageHistory(const MessageHistory&) = delete;
  MessageHistory& operator=(const MessageHistory&) = delete;

  void add(const std::string& message);
  [[nodiscard]] ::History* handle() const { return history_; }  ///< for libedit

 private:
  std::string file_;  // "": no place for one
  ::History* history_;
};

/// The text as $VISUAL or $EDITOR (else vi) leaves it, without newlines at the end; unchanged if
/// the editor or the temporary file fails. The editor has the terminal until it ends.
std::string edit_text(const std::string& text);

enum class Read {
  Line,
  Cleared,    ///< Ctrl-C threw away what was typed
  Interrupt,  ///< Ctrl-C on an empty line
  End
};

/// A typed or pasted text.
struct TypedText {
  std::string text;
  /// It was pasted, edited elsewhere or stands between two lines of """: text as it is, in which
  /// nothing is a command or another mark.
  bool literal = false;
  bool unclosed = false;  ///< the input ended before the """ that closes it
};

/// The completions of a line up to the cursor.
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

/// Reads a complete message: lines that end in a backslash continue, and so does everything between
/// two lines of """, also behind /system. The end of the input ends a message too.
/// The history stores pasted text that would read as a command between """.
Read read_message(LineReader& reader, TypedText& out);

}  // namespace cria::tools
