// Lines typed on a terminal: edited by libedit, with history and completion.
//
// Pasted text comes in brackets (mode 2004 of terminals): it is text, whatever it looks like, and
// its newlines send nothing. The keys for signals are read as keys while a line is edited, in their
// order among the others.
#pragma once
#include <histedit.h>

#include <string>

#include "tools/terminal/line_reader.h"

namespace cria::tools {

class TerminalReader : public LineReader {
 public:
  explicit TerminalReader(Completer completer);
  ~TerminalReader() override;
  TerminalReader(const TerminalReader&) = delete;
  TerminalReader& operator=(const TerminalReader&) = delete;

  Read line(const std::string& prompt, TypedText& out) override;
  void remember(const std::string& message) override;

 private:
  /// The terminal of standard input, opened again so that only this descriptor is non-blocking.
  /// Ctrl-C as a signal discards typed text, also between a poll and the read.
  class Input {
   public:
    Input();
    ~Input();
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;
    [[nodiscard]] int descriptor() const;

   private:
    int own_ = -1;
  };

  using Key = unsigned char(EditLine*, int);  // libedit's form of what a key does
  static TerminalReader& of(EditLine* edit);
  static Key interrupt, end_or_delete, suspend, edit_elsewhere, complete, paste, left, right,
      delete_left;
  static int get(EditLine* edit, wchar_t* out);
  void bind(const char* name, const char* help, Key* key, std::initializer_list<const char*> keys);
  void bind_keys();

  int read_character(wchar_t& out);
  void leave_line();
  void return_to_line();
  void replace_line(const std::string& text);
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string text_to_cursor() const;

  Input input_;
  Completer completer_;
  MessageHistory history_;
  std::string prompt_;
  EditLine* edit_;
  Read read_ = Read::Line;  // how the line ends
  std::string literal_;     // text pasted at the line's start, or edited
  bool brackets_;           // the terminal is asked for them
};

}  // namespace cria::tools
