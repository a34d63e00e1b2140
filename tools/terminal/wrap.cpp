#include "tools/terminal/wrap.h"

#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <unistr.h>
#include <uniwidth.h>

#include <algorithm>
#include <clocale>
#include <cwchar>
#include <utility>

#include "model/file/utf8.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

constexpr char32_t kZeroWidthJoiner = 0x200D;

/// Columns of one character; control characters have none. The system's table, whatever the user's
/// locale.
std::size_t columns_of(char32_t character) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (character < 0x7F || utf8 == nullptr) return character < 0x20 ? 0 : 1;
  const locale_t before = uselocale(utf8);
  const int columns = wcwidth(static_cast<wchar_t>(character));
  uselocale(before);
  return columns < 0 ? 0 : static_cast<std::size_t>(columns);
}

/// Bytes of a style sequence ("\033[1;32m") at the start, or 0.
std::size_t style_bytes(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end == std::string_view::npos ? text.size() : end + 1;
}

/// Walks over a text: calls step(bytes, columns) for each character or sequence until it returns
/// false.
template <class Step>
void walk(std::string_view text, Step step) {
  bool joined = false;  // to the character before
  while (!text.empty()) {
    std::size_t bytes = style_bytes(text), columns = 0;
    if (bytes == 0) {
      const Utf8Char c = first_char(text);
      bytes = c.bytes;
      columns = !c.valid ? 1 : joined ? 0 : columns_of(c.code_point);
      joined = c.valid && c.code_point == kZeroWidthJoiner;
    }
    if (!step(bytes, columns)) return;
    text.remove_prefix(bytes);
  }
}

/// One paragraph, without newlines.
std::string wrapped_paragraph(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t used = 0;
  bool at_start = true;
  while (!text.empty()) {
    const std::size_t blanks = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = std::min(text.find(' ', blanks), text.size());
    const std::string_view word = text.substr(blanks, end - blanks);
    const std::size_t width = display_width(word);
    if (!at_start && !word.empty() && used + blanks + width > columns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else {
      out.append(blanks, ' ');
      used += blanks;
    }
    out += word;
    used += width;
    at_start = at_start && word.empty();
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

std::size_t terminal_columns(std::FILE* stream) {
  constexpr std::size_t kUsual = 80;  // for terminals of unknown width
  const int descriptor = fileno(stream);
  if (!is_terminal(stream)) return 0;
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  walk(text, [&](std::size_t, std::size_t columns) {
    width += columns;
    return true;
  });
  return width;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t bytes = 0, width = 0;
  walk(text, [&](std::size_t more, std::size_t wide) {
    if (width + wide > columns - 1) return false;
    bytes += more;
    width += wide;
    return true;
  });
  return std::string(text.substr(0, bytes)) + "…";
}

std::vector<std::string> pieces(std::string_view text, std::size_t columns) {
  std::vector<std::string> all(1);
  std::size_t width = 0;
  walk(text, [&, at = std::size_t{0}](std::size_t bytes, std::size_t wide) mutable {
    if (width + wide > columns && width > 0) {
      all.emplace_back();
      width = 0;
    }
    const bool fits = wide <= columns;
    all.back() += fits ? text.substr(at, bytes) : "…";
    width += fits ? wide : 1;
    at += bytes;
    return true;
  });
  return all;
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += wrapped_paragraph(text.substr(0, end), columns, indent);
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

namespace {

std::size_t width(std::string_view text) {
  const int columns =
      u8_width(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), "UTF-8");
  return columns < 0 ? 0 : static_cast<std::size_t>(columns);
}

/// Bytes of the first character.
std::size_t character_bytes(std::string_view text) {
  const int n = u8_mblen(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  return n <= 0 ? 1 : static_cast<std::size_t>(n);
}

constexpr std::size_t kTab = 8;
constexpr std::size_t kCodeIndent = 4;

}  // namespace

std::string WordWrap::push(std::string_view piece) {
  while (!piece.empty()) {
    const std::size_t n = character_bytes(piece);
    add(piece.substr(0, n));
    piece.remove_prefix(n);
  }
  return std::exchange(out_, {});
}

std::string WordWrap::finish() {
  end_word();
  show_as_it_is(std::exchange(blanks_, {}));
  return std::exchange(out_, {});
}

void WordWrap::add(std::string_view character) {
  if (character == "\n") return end_line();
  line_ += character;
  if (is_code()) {
    end_word();
    show_as_it_is(std::exchange(blanks_, {}));
    return show_as_it_is(character);
  }
  if (character == "`") in_backticks_ = !in_backticks_;
  const bool blank = character == " " || character == "\t";
  if (blank && !in_backticks_) {
    end_word();
    blanks_ += character;
    return;
  }
  const bool wide = width(character) == 2;
  if (wide) end_word();
  word_ += character;
  const bool too_long = width(word_) > columns_();
  if (wide || too_long) end_word();
  if (too_long && !wide) in_long_word_ = true;
}

bool WordWrap::is_fence() const {
  const std::string_view text =
      std::string_view(line_).substr(std::min(line_.find_first_not_of(' '), line_.size()));
  return text.starts_with("```") || text.starts_with("~~~");
}

bool WordWrap::is_code() const {
  return in_fence_ || is_fence() || line_.starts_with('|') || line_.starts_with('\t') ||
         line_.starts_with(std::string(kCodeIndent, ' '));
}

void WordWrap::show_as_it_is(std::string_view text) {
  out_ += text;
  column_ += text == "\t" ? kTab - column_ % kTab : width(text);
}

void WordWrap::end_word() {
  if (word_.empty()) return;
  const std::size_t columns = columns_();
  if (columns != 0 && column_ != 0 && !in_long_word_ &&
      column_ + width(blanks_) + width(word_) > columns) {
    out_ += '\n' + std::string(indent_, ' ');
    column_ = indent_;
  } else {
    show_as_it_is(blanks_);
  }
  blanks_.clear();
  in_long_word_ = false;
  show_as_it_is(std::exchange(word_, {}));
  if (columns != 0 && column_ > columns) column_ %= columns;  // the terminal has broken the word
}

void WordWrap::end_line() {
  end_word();
  if (is_fence()) in_fence_ = !in_fence_;
  in_backticks_ = false;
  line_.clear();
  blanks_.clear();
  out_ += '\n';
  column_ = 0;
}

namespace {

WordWrap wrap_for_stdout() {
  return WordWrap([] { return terminal_columns(stdout); });
}

}  // namespace

AnswerView::AnswerView(bool for_person) : for_person_(for_person), wrap_(wrap_for_stdout()) {}

void AnswerView::think(std::string_view piece) {
  if (!thinking_ && !shows_styles(stdout)) write_stdout("[thinking]\n");
  thinking_ = true;
  write(piece, true);
}

void AnswerView::answer(std::string_view piece) {
  end_thinking();
  write(piece, false);
  if (!piece.empty()) in_line_ = piece.back() != '\n';
}

void AnswerView::call(std::string_view line) {
  end_thinking();
  if (for_person_) write_stdout(wrap_.finish());
  write_stdout((in_line_ ? "\n" : "") + for_stream(stdout, line) + "\n");
  in_line_ = false;
  flush_stdout();
}

void AnswerView::finish() {
  end_thinking();
  if (for_person_) write_stdout(wrap_.finish());
  wrap_ = wrap_for_stdout();
  in_line_ = false;
  flush_stdout();
}

void AnswerView::write(std::string_view text, bool dimmed) {
  std::string shown = for_stream(stdout, text);
  if (for_person_) shown = wrap_.push(shown);
  if (!shown.empty()) write_stdout(dimmed ? styled(stdout, Style::Dim, shown) : shown);
  flush_stdout();
}

void AnswerView::end_thinking() {
  if (!thinking_) return;
  thinking_ = false;
  if (for_person_) write_stdout(styled(stdout, Style::Dim, wrap_.finish()));
  wrap_ = wrap_for_stdout();
  write_stdout(shows_styles(stdout) ? "\n\n" : "\n[end of thinking]\n\n");
}

}  // namespace cria::tools
