#include "engine/constrain/code_points.h"

#include <string>

#include "model/file/utf8.h"

namespace cria {
namespace {

using Kind = RegexNode::Kind;

CodeSet digit_codes() { return {{'0', '9'}}; }

CodeSet space_codes() {
  return normalized({{0x9, 0xD},
                     {0x20, 0x20},
                     {0xA0, 0xA0},
                     {0x1680, 0x1680},
                     {0x2000, 0x200A},
                     {0x2028, 0x2029},
                     {0x202F, 0x202F},
                     {0x205F, 0x205F},
                     {0x3000, 0x3000},
                     {0xFEFF, 0xFEFF}});
}

class RegexParser {
 public:
  RegexParser(std::string_view text, Budget& budget) : all_(text), rest_(text), budget_(budget) {
    if (!is_utf8(text)) fail("not UTF-8");
  }

  RegexNode parse() {
    RegexNode node = choice(0);
    if (!rest_.empty()) fail("a closing bracket without an opening one");
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ConstraintError("regular expression: " + what,
                          "character " + std::to_string(all_.size() - rest_.size() + 1));
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char32_t next_code() {
    if (rest_.empty()) fail("ends too early");
    const Utf8Char c = first_char(rest_);
    rest_.remove_prefix(c.bytes);
    return c.code_point;
  }

  RegexNode choice(std::size_t depth) {
    constexpr std::size_t kDeepest = 200;
    if (depth > kDeepest) fail("brackets are nested too deeply");
    RegexNode node{.kind = Kind::Choice, .codes = {}, .parts = {}};
    do node.parts.push_back(sequence(depth));
    while (take("|"));
    if (node.parts.size() == 1) return std::move(node.parts.front());
    return node;
  }

  RegexNode sequence(std::size_t depth) {
    RegexNode node;
    while (!rest_.empty() && rest_.front() != '|' && rest_.front() != ')') {
      RegexNode part = atom(depth);
      node.parts.push_back(repeated(std::move(part)));
    }
    return node;
  }

  static RegexNode of(CodeSet codes) {
    return {.kind = Kind::Codes, .codes = std::move(codes), .parts = {}};
  }
  static RegexNode of(Kind kind) { return {.kind = kind, .codes = {}, .parts = {}}; }

  RegexNode atom(std::size_t depth) {
    if (take("(")) return group(depth);
    if (take("[")) return of(bracket());
    if (take(".")) return of(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (take("^")) return of(Kind::Begin);
    if (take("$")) return of(Kind::End);
    if (take("\\b")) return of(Kind::WordEdge);
    if (take("\\B")) return of(Kind::NoWordEdge);
    if (rest_.starts_with("*") || rest_.starts_with("+") || rest_.starts_with("?"))
      fail("nothing to repeat");
    if (take("\\")) return of(escape(false));
    const char32_t code = next_code();
    return of(CodeSet{{code, code}});
  }

  RegexNode group(std::size_t depth) {
    if (take("?=") || take("?!") || take("?<=") || take("?<!"))
      fail("look-around is supported only as look-ahead after ^");
    if (take("?<")) {
      const std::size_t end = rest_.find('>');
      if (end == std::string_view::npos || end == 0) fail("a group's name does not end");
      rest_.remove_prefix(end + 1);
    } else if (rest_.starts_with("?") && !take("?:")) {
      fail("an unknown kind of group");
    }
    RegexNode node = choice(depth + 1);
    if (!take(")")) fail("an unclosed bracket");
    return node;
  }

  std::size_t number() {
    std::size_t n = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      n = std::min<std::size_t>(n * 10 + static_cast<std::size_t>(rest_.front() - '0'),
                                1'000'000'000);
      rest_.remove_prefix(1);
    }
    return n;
  }

  static bool is_digit(std::string_view text) {
    return !text.empty() && text.front() >= '0' && text.front() <= '9';
  }

  /// True if another repetition follows.
  [[nodiscard]] bool repeats_again() const {
    if (rest_.starts_with('*') || rest_.starts_with('+') || rest_.starts_with('?')) return true;
    const std::size_t end = rest_.find('}');
    if (!rest_.starts_with('{') || end == std::string_view::npos) return false;
    const std::string_view count = rest_.substr(1, end - 1);
    return is_digit(count) && count.find_first_not_of("0123456789,") == std::string_view::npos &&
           count.find(',') == count.rfind(',');
  }

  RegexNode repeated(RegexNode part) {
    std::size_t least = 0, most = kNoLimit;
    if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (!take("*")) {
      const std::string_view before = rest_;
      if (!take("{")) return part;
      const bool counts = is_digit(rest_);
      least = number();
      most = least;
      if (take(",")) most = is_digit(rest_) ? number() : kNoLimit;
      if (!counts || !take("}")) {  // it stands for itself
        rest_ = before;
        return part;
      }
      if (least > most) fail("a repetition whose maximum is below its minimum");
    }
    take("?");  // lazy ones match the same texts
    if (part.kind >= Kind::Begin || repeats_again()) fail("nothing to repeat");
    RegexNode node{.kind = Kind::Repeat, .codes = {}, .parts = {}, .least = least, .most = most};
    node.parts.push_back(std::move(part));
    return node;
  }

  char32_t hex(std::size_t digits) {
    char32_t code = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const char32_t c = next_code();
      const bool decimal = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f',
                 upper = c >= 'A' && c <= 'F';
      if (!decimal && !lower && !upper) fail("expected a hexadecimal digit");
      code = code * 16 + (decimal ? c - '0' : lower ? c - 'a' + 10 : c - 'A' + 10);
    }
    return code;
  }

  char32_t unicode() {
    if (take("{")) {
      const std::size_t end = rest_.find('}');
      if (end == std::string_view::npos || end == 0 || end > 8)
        fail("expected \\u{…} with up to 8 digits");
      const char32_t code = hex(end);
      take("}");
      if (code > kLastCode) fail("a code point beyond U+10FFFF");
      return code;
    }
    const char32_t code = hex(4);
    if (code < 0xD800 || code > 0xDBFF || !take("\\u")) return code;
    const char32_t low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }

  // Reads what follows \p and \P.
  CodeSet property() {
    const std::size_t end = take("{") ? rest_.find('}') : std::string_view::npos;
    if (end == std::string_view::npos) fail("expected \\p{…} with a Unicode property");
    const auto codes = codes_with_property(rest_.substr(0, end), budget_);
    if (!codes) fail("an unknown Unicode property (scripts are \\p{Script=Greek})");
    rest_.remove_prefix(end + 1);
    return *codes;
  }

  /// A class by its letter: capitals are for all other characters.
  static CodeSet in_case(char32_t letter, const CodeSet& set) {
    return letter < 'a' ? complement(set) : set;
  }

  // Reads what follows a backslash. \b is a word's edge outside of brackets.
  CodeSet escape(bool in_bracket) {
    const char32_t c = next_code();
    const auto one = [](char32_t code) { return CodeSet{{code, code}}; };
    constexpr std::u32string_view kLetters = U"nrtfvb", kControls = U"\n\r\t\f\v\b";
    if (const std::size_t i = kLetters.find(c); i != kLetters.npos) return one(kControls[i]);
    if (c == 'd' || c == 'D') return in_case(c, digit_codes());
    if (c == 'w' || c == 'W') return in_case(c, word_codes());
    if (c == 's' || c == 'S') return in_case(c, space_codes());
    if (c == 'p' || c == 'P') return in_case(c, property());
    if (c == 'x') return one(hex(2));
    if (c == 'u') return normalized(one(unicode()));
    if (c == 'c') {
      const char32_t letter = next_code() | 0x20;
      if (letter < 'a' || letter > 'z') fail("expected a letter behind \\c");
      return one(letter - 'a' + 1);
    }
    if (c == '0' && !is_digit(rest_)) return one(0);
    if (c >= '0' && c <= '9') fail("back references are not supported");
    if (c == 'k' && !in_bracket) fail("back references are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) fail("an unknown escape");
    return one(c);
  }

  CodeSet member() {
    return take("\\") ? escape(true) : [&] {
      const char32_t c = next_code();
      return CodeSet{{c, c}};
    }();
  }

  CodeSet bracket() {
    const bool negated = take("^");
    std::vector<CodeRange> ranges;
    while (!take("]")) {
      CodeSet set = member();
      const bool is_range = rest_.starts_with("-") && !rest_.starts_with("-]");
      if (is_range) {
        take("-");
        const CodeSet last = member();
        if (set.size() != 1 || last.size() != 1 || set[0].low != set[0].high ||
            last[0].low != last[0].high)
          fail("a range of classes");
        if (set[0].low > last[0].low) fail("a range whose end is before its start");
        set[0].high = last[0].low;
      }
      ranges.insert(ranges.end(), set.begin(), set.end());
    }
    const CodeSet all = normalized(std::move(ranges));
    return negated ? complement(all) : all;
  }

  const std::string_view all_;
  std::string_view rest_;
  Budget& budget_;
};

}  // namespace

CodeSet word_codes() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }

RegexNode parse_regex(std::string_view expression, Budget& budget) {
  return RegexParser(expression, budget).parse();
}

}  // namespace cria
