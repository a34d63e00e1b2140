// Where the lines of a chat come from: an editable prompt with history on a terminal, else plain stdin.
#pragma once

#include <memory>
#include <string>

namespace cria::tools {

enum class Read { Line, Interrupt, End };

class LineReader {
 public:
  virtual ~LineReader() = default;
  /// The next line without its newline. The prompt is shown with a space after it.
  virtual Read line(const std::string& prompt, std::string& out) = 0;
  /// Keeps a message for the history.
  virtual void remember(const std::string& message) = 0;

  /// SIGINT must be caught (catch_interrupts): line() returns Read::Interrupt then.
  static std::unique_ptr<LineReader> create(bool terminal);
};

/// A whole message: lines that end in a backslash go on, and so does everything between two lines of """.
Read read_message(LineReader& reader, std::string& out);

}  // namespace cria::tools
