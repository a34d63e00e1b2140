#include "tokenizer/jinja/syntax/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "model/file/utf8.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {

namespace {

/// A code point of exactly `digits` hexadecimal digits.
char32_t hex(std::string_view text, std::size_t digits, std::size_t at) {
  std::uint32_t code = 0;
  const std::string_view number = text.substr(0, digits);
  const auto [end, bad] = std::from_chars(number.data(), number.data() + number.size(), code, 16);
  if (bad != std::errc() || end != number.data() + digits || code > 0x10FFFF)
    throw SyntaxError(
        "bad escape in a string: expected " + std::to_string(digits) + " hexadecimal digits", at);
  return code;
}

/// Appends what the escape after a backslash stands for; returns how many bytes it has.
std::size_t escape(std::string_view text, std::size_t at, std::string& out) {
  constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
  const char c = text[0];
  if (c == '\n') return 1;
  if (const std::size_t i = kNames.find(c); i != std::string_view::npos)
    return out += kValues[i], 1;
  if (c >= '0' && c <= '7') {
    std::size_t n = 0;
    char32_t code = 0;
    while (n < 3 && n < text.size() && text[n] >= '0' && text[n] <= '7')
      code = code * 8 + static_cast<char32_t>(text[n++] - '0');
    append_utf8(out, code);
    return n;
  }
  if (const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0; digits != 0) {
    append_utf8(out, hex(text.substr(1), digits, at));
    return 1 + digits;
  }
  out += '\\';  // unknown: the backslash stays, and what follows is read on
  return 0;
}

}  // namespace

std::string unescaped(std::string_view quoted, std::size_t at) {
  std::string out;
  for (std::size_t i = 0; i < quoted.size();) {
    if (quoted[i] != '\\') {
      out += quoted[i++];
      continue;
    }
    ++i;
    if (i == quoted.size()) throw SyntaxError("a string ends in a backslash", at);
    i += escape(quoted.substr(i), at + i, out);
  }
  return out;
}

namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// So that finding a variable, which is one step, is a small one.
constexpr std::size_t kLongestName = 1024;

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) between_tags();
    add(TokenKind::End, "", source_.size());
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] bool starts(std::string_view text, std::size_t at) const {
    return source_.substr(std::min(at, source_.size())).starts_with(text);
  }
  [[nodiscard]] char char_at(std::size_t at) const {
    return at < source_.size() ? source_[at] : '\0';
  }
  [[nodiscard]] std::size_t after_spaces(std::size_t at) const {
    while (at < source_.size()) {
      const Utf8Char c = first_char(source_.substr(at));
      if (!c.valid || !is_space(c.code_point)) break;
      at += c.bytes;
    }
    return at;
  }
  void add(TokenKind kind, std::string text, std::size_t at) {
    tokens_.push_back({kind, std::move(text), at});
  }

  [[nodiscard]] bool only_spaces(std::string_view text) const {
    return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })
               ? std::ranges::all_of(text,
                                     [](char c) { return is_space(static_cast<unsigned char>(c)); })
               : Lexer(text).after_spaces(0) == text.size();
  }

  /// Text up to a tag that opens with `sign` ('-', '+' or none).
  void data(std::size_t begin, std::size_t end, char sign, bool variable) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      while (!text.empty()) {
        const std::size_t last = previous_char(text, text.size());
        const Utf8Char c = first_char(text.substr(last));
        if (!c.valid || !is_space(c.code_point)) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && !variable) {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line > 0 || line_starting_) && only_spaces(text.substr(line)))
        text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::Data, std::string(text), begin);
  }

  /// The sign after an opening delimiter at `open`.
  [[nodiscard]] char sign_after(std::size_t open) const {
    const char c = char_at(open + 2);
    return c == '-' || c == '+' ? c : '\0';
  }

  void between_tags() {
    std::size_t open = at_;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == std::string_view::npos) {
        add(TokenKind::Data, std::string(source_.substr(at_)), at_);
        at_ = source_.size();
        return;
      }
      const char next = char_at(open + 1);
      if (next == '%' || next == '{' || next == '#') break;
    }
    const char sign = sign_after(open);
    data(at_, open, sign, char_at(open + 1) == '{');
    at_ = open + (sign != '\0' ? 3 : 2);
    line_starting_ = false;
    if (char_at(open + 1) == '#') return comment(open);
    if (char_at(open + 1) == '%' && raw_begin()) return raw(open);
    const bool block = char_at(open + 1) == '%';
    add(block ? TokenKind::BlockBegin : TokenKind::VariableBegin, "", open);
    tag(block, open);
  }

  /// Passes a closing delimiter if one is here: "-%}" takes the white space behind it along, "%}" a
  /// newline.
  bool close(std::string_view delimiter, bool trims_newline) {
    std::size_t end = 0;
    if (starts(delimiter, at_)) {
      end = at_ + delimiter.size();
      if (trims_newline && char_at(end) == '\n') ++end;
    } else if (char_at(at_) == '-' && starts(delimiter, at_ + 1)) {
      end = after_spaces(at_ + 1 + delimiter.size());
    } else if (trims_newline && char_at(at_) == '+' && starts(delimiter, at_ + 1)) {
      end = at_ + 1 + delimiter.size();
    } else {
      return false;
    }
    at_ = end;
    line_starting_ = source_[end - 1] == '\n';
    return true;
  }

  void comment(std::size_t open) {
    std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) throw SyntaxError("a comment has no end", open);
    if (end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+')) --end;
    at_ = end;
    close("#}", true);
  }

  /// Passes "raw %}" after "{%".
  bool raw_begin() {
    std::size_t at = after_spaces(at_);
    if (!starts("raw", at)) return false;
    at = after_spaces(at + 3);
    if (starts("%}", at)) {
      at_ = at + 2;
    } else if (starts("-%}", at)) {
      at_ = after_spaces(at + 3);
    } else {
      return false;
    }
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  void raw(std::size_t open) {
    const std::size_t begin = at_;
    for (std::size_t end = source_.find("{%", begin); end != std::string_view::npos;
         end = source_.find("{%", end + 2)) {
      const char sign = sign_after(end);
      at_ = after_spaces(end + (sign != '\0' ? 3 : 2));
      if (!starts("endraw", at_)) continue;
      at_ = after_spaces(at_ + 6);
      const bool line_starting = line_starting_;
      if (!close("%}", true)) continue;
      const bool after = line_starting_;
      line_starting_ = line_starting;
      data(begin, end, sign, false);
      line_starting_ = after;
      return;
    }
    throw SyntaxError("a raw block has no end", open);
  }

  void tag(bool block, std::size_t open) {
    std::vector<char> brackets;
    for (;;) {
      at_ = after_spaces(at_);
      if (at_ >= source_.size()) throw SyntaxError("a tag has no end", open);
      const std::size_t here = at_;
      if (brackets.empty() && close(block ? "%}" : "}}", block)) {
        add(block ? TokenKind::BlockEnd : TokenKind::VariableEnd, "", here);
        return;
      }
      if (!number() && !name() && !string()) operation(brackets);
    }
  }

  /// Reads digits with single underscores between them; returns their end, or `at` without any.
  template <class IsDigit>
  std::size_t digits(std::size_t at, IsDigit is_digit) const {
    std::size_t end = at;
    while (is_digit(char_at(end)) ||
           (end > at && char_at(end) == '_' && is_digit(char_at(end + 1))))
      ++end;
    return end;
  }
  [[nodiscard]] std::size_t decimals(std::size_t at) const { return digits(at, is_digit_char); }

  /// 0x1F, 0o17, 0b11; where it ends, or `at`.
  [[nodiscard]] std::size_t radix_number(std::size_t at) const {
    if (char_at(at) != '0') return at;
    const char radix = static_cast<char>(char_at(at + 1) | 0x20);
    const auto is_digit = [radix](char c) {
      const char low = static_cast<char>(c | 0x20);
      return radix == 'b'   ? c == '0' || c == '1'
             : radix == 'o' ? c >= '0' && c <= '7'
                            : is_digit_char(c) || (low >= 'a' && low <= 'f');
    };
    if (radix != 'b' && radix != 'o' && radix != 'x') return at;
    const std::size_t end = digits(at + 2, is_digit);
    return end == at + 2 ? at : end;
  }

  bool number() {
    std::size_t end = decimals(at_);
    if (end == at_) return false;
    TokenKind kind = TokenKind::Integer;
    if (const std::size_t radix = radix_number(at_); radix != at_) {
      end = radix;
    } else if (at_ == 0 || source_[at_ - 1] != '.') {
      const auto extend = [&](std::size_t to, std::size_t from) {
        if (to == from) return;
        end = to;
        kind = TokenKind::Float;
      };
      if (char_at(end) == '.') extend(decimals(end + 1), end + 1);
      if ((char_at(end) | 0x20) == 'e') {
        const bool sign = char_at(end + 1) == '+' || char_at(end + 1) == '-';
        const std::size_t from = end + (sign ? 2 : 1);
        extend(decimals(from), from);
      }
    }
    std::string text(source_.substr(at_, end - at_));
    std::erase(text, '_');
    if (kind == TokenKind::Integer && text[0] == '0' && end == decimals(at_) &&
        text.find_first_not_of('0') != std::string::npos)
      throw SyntaxError("an integer begins with 0", at_);
    add(kind, std::move(text), at_);
    at_ = end;
    return true;
  }

  bool name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      const Utf8Char c = first_char(source_.substr(end));
      if (!c.valid || !is_word(c.code_point)) break;
      end += c.bytes;
    }
    if (end == at_) return false;
    if (end - at_ > kLongestName)
      throw SyntaxError("a name is too long: expected at most 1024 bytes", at_);
    add(TokenKind::Name, std::string(source_.substr(at_, end - at_)), at_);
    at_ = end;
    return true;
  }

  bool string() {
    const char quote = char_at(at_);
    if (quote != '"' && quote != '\'') return false;
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) throw SyntaxError("a string has no end", at_);
    add(TokenKind::String, unescaped(source_.substr(at_ + 1, end - at_ - 1), at_ + 1), at_);
    at_ = end + 1;
    return true;
  }

  void operation(std::vector<char>& brackets) {
    const auto* const found =
        std::ranges::find_if(kOperators, [&](std::string_view op) { return starts(op, at_); });
    if (found == std::end(kOperators)) {
      const std::size_t n = first_char(source_.substr(at_)).bytes;
      throw SyntaxError("unexpected character '" + std::string(source_.substr(at_, n)) + "'", at_);
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        throw SyntaxError(
            std::string("unexpected '") + c + "'" +
                (brackets.empty() ? "" : std::string(", expected '") + brackets.back() + "'"),
            at_);
      brackets.pop_back();
    }
    add(TokenKind::Operator, std::string(*found), at_);
    at_ += found->size();
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace cria::jinja
