// The words of the expressions that most vocabularies use, found by rules: ten times as fast as the
// expressions. The tests compare both on random texts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace cria {

enum class WordRules : std::uint8_t {
  None,
  Gpt2,       ///< contraction | optional space and letters, digits or others | white space
  Tiktoken1,  ///< contraction | optional other and letters | a digit | others and line ends | white
              ///< space
  Tiktoken3,  ///< like Tiktoken1, with up to three digits
};

enum class WordClass : std::uint8_t { Other, Letter, Digit, Space, LineEnd, End };

/// The classes of a text with one byte per character (CharacterClasses).
struct WordClasses {
  std::array<WordClass, 256> of{};
  char long_s = 0;  ///< the byte of U+017F, an s in any case
};

/// Finds the end of the word that begins at a place of the text.
class WordScanner {
 public:
  WordScanner(const WordClasses& classes, std::string_view text, std::size_t at)
      : classes_(classes), text_(text), at_(at) {}

  [[nodiscard]] std::size_t end(WordRules rules) const {
    return rules == WordRules::Gpt2 ? gpt2() : tiktoken(rules == WordRules::Tiktoken3 ? 3 : 1);
  }

 private:
  using enum WordClass;

  [[nodiscard]] std::size_t gpt2() const {
    if (const std::size_t bytes = contraction_bytes(false)) return at_ + bytes;
    const std::size_t from = at_ + (text_[at_] == ' ' ? 1 : 0);
    const WordClass first = class_at(from);
    if (first == Letter || first == Digit || first == Other) return run(first, from);
    return white_space(false);
  }

  [[nodiscard]] std::size_t tiktoken(std::size_t max_digits) const {
    const WordClass first = class_at(at_);
    if (first == Letter) return run(Letter, at_);
    if (first == Digit) return digits(max_digits);
    if (const std::size_t bytes = contraction_bytes(true)) return at_ + bytes;
    if (first != LineEnd && class_at(at_ + 1) == Letter) return run(Letter, at_ + 1);
    const std::size_t others = at_ + (text_[at_] == ' ' ? 1 : 0);
    if (class_at(others) != Other) return white_space(true);
    return run(LineEnd, run(Other, others));
  }

  [[nodiscard]] WordClass class_at(std::size_t at) const {
    return at < text_.size() ? classes_.of[static_cast<unsigned char>(text_[at])] : End;
  }
  [[nodiscard]] std::size_t run(WordClass of, std::size_t end) const {
    while (class_at(end) == of) ++end;
    return end;
  }
  [[nodiscard]] std::size_t digits(std::size_t max) const {
    std::size_t end = at_ + 1;
    while (end < at_ + max && class_at(end) == Digit) ++end;
    return end;
  }
  /// Bytes of 's 't 'm 'd 're 've 'll, or 0.
  [[nodiscard]] std::size_t contraction_bytes(bool any_case) const {
    if (text_[at_] != '\'') return 0;
    const auto letter = [&](std::size_t i) {
      const char c = at_ + i < text_.size() ? text_[at_ + i] : '\0';
      if (any_case && c == classes_.long_s) return 's';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    };
    const char a = letter(1), b = letter(2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
  }
  /// White space up to its last line end (if line ends bind), or all of it except the last
  /// character, which belongs to the word that follows.
  [[nodiscard]] std::size_t white_space(bool line_ends_bind) const {
    std::size_t end = at_, after_line_end = at_;
    for (WordClass c = class_at(end); c == Space || c == LineEnd; c = class_at(end)) {
      ++end;
      if (c == LineEnd) after_line_end = end;
    }
    if (line_ends_bind && after_line_end > at_) return after_line_end;
    return class_at(end) == End || end == at_ + 1 ? end : end - 1;
  }

  const WordClasses& classes_;
  std::string_view text_;
  std::size_t at_;
};

}  // namespace cria
