// Columns of text: widths of characters, lines broken at words, an answer as it streams.
#pragma once
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::tools {

/// Present columns of the stream's terminal; 0 without a terminal.
std::size_t terminal_columns(std::FILE* stream);

/// Columns that a text of one line takes: wide characters take two, what joins or marks others
/// none, and so do sequences that set a style.
std::size_t display_width(std::string_view text);

/// The text, cut to `columns` with "…" at the end.
std::string shortened(std::string_view text, std::size_t columns);

/// The text in pieces of at most `columns`, at least 1; a character that is wider becomes "…".
std::vector<std::string> pieces(std::string_view text, std::size_t columns);

/// The text in lines of at most `columns`, broken at blanks; longer words are not cut. Lines after
/// the first of a paragraph begin with `indent` blanks. Newlines in the text stay.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent = 0);

/// Breaks lines at blanks, and between characters that are two columns wide. Code is left as it is:
/// what stands between two lines of ``` (or ~~~), lines that are indented by four blanks or more or
/// begin with |, and blanks between two ` of one line. A word is given out when it is whole.
class WordWrap {
 public:
  /// columns: asked for every word, as terminals change; 0: no line is broken. indent: of continued
  /// lines.
  explicit WordWrap(std::function<std::size_t()> columns, std::size_t indent = 0)
      : columns_(std::move(columns)), indent_(indent) {}

  /// UTF-8, no character in two pieces. Returns what can be shown now.
  [[nodiscard]] std::string push(std::string_view piece);
  /// The rest at the end.
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
  std::string line_;        // the text received so far
  std::string word_;        // the word that is not shown yet
  std::string blanks_;      // before that word
  std::size_t column_ = 0;  // on the terminal
  bool in_fence_ = false;   // the line stands between two of ```
  bool in_backticks_ = false;
  bool in_long_word_ = false;  // inside a word wider than the terminal
  std::string out_;
};

/// Thinking is dimmed; where stdout shows no styles it stands between lines that say so. A terminal
/// gets no control characters.
class AnswerView {
 public:
  /// for_person: lines end between words; else they are the model's.
  explicit AnswerView(bool for_person);

  void think(std::string_view piece);
  void answer(std::string_view piece);
  /// A line of its own.
  void call(std::string_view line);
  /// Shows held-back text and ends thinking without an answer. Resets the view.
  void finish();

 private:
  void write(std::string_view text, bool dimmed);
  void end_thinking();

  bool for_person_, thinking_ = false, in_line_ = false;
  WordWrap wrap_;
};

}  // namespace cria::tools
