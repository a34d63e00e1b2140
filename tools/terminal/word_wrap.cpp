#include "tools/terminal/word_wrap.h"

#include <unistr.h>
#include <uniwidth.h>

#include <algorithm>
#include <utility>

namespace cria::tools {
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

}  // namespace cria::tools
