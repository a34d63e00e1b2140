// A text that comes piece by piece, in lines that end between words.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace cria::tools {

/// Breaks lines at blanks, and between characters that are two columns wide. Code is left as it is:
/// what stands between two lines of ``` (or ~~~), lines that are indented by four blanks or more or
/// begin with |, and blanks between two ` of one line. A word is given out when it is whole.
class WordWrap {
 public:
  /// columns: asked for every word, as terminals change; 0: no line is broken. indent: blanks
  /// before what goes on in a new line.
  explicit WordWrap(std::function<std::size_t()> columns, std::size_t indent = 0)
      : columns_(std::move(columns)), indent_(indent) {}

  /// UTF-8, no character in two pieces. Returns what can be shown now.
  [[nodiscard]] std::string push(std::string_view piece);
  /// What is left at the end.
  [[nodiscard]] std::string finish();

 private:
  void add(std::string_view character);
  void end_word();
  void end_line();
  void show_as_it_is(std::string_view text);
  [[nodiscard]] bool is_fence() const;
  [[nodiscard]] bool is_code() const;

  std::function<std::size_t()> columns_;
  std::size_t indent_;
  std::string line_;        // of the text, as far as it has come
  std::string word_;        // of it, the word that is not shown yet
  std::string blanks_;      // before that word
  std::size_t column_ = 0;  // on the terminal
  bool in_fence_ = false;   // the line stands between two of ```
  bool in_backticks_ = false;
  bool in_long_word_ = false;  // what comes belongs to a word that is wider than the terminal
  std::string out_;
};

}  // namespace cria::tools
