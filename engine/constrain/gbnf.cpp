// Grammars in GBNF: rules `name ::= …` of texts, classes, names and groups, with repetitions.
#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <utility>

#include "engine/constrain/code_points.h"
#include "engine/constrain/token_masks.h"
#include "model/file/utf8.h"

namespace cria {
namespace {

// Reads a grammar's text; errors name line and column.
class GbnfReader {
 public:
  explicit GbnfReader(std::string_view text) : all_(text), rest_(text) {
    rest_.remove_prefix(valid_prefix(text));
    if (!rest_.empty()) fail("not UTF-8");
    rest_ = all_;
  }

  [[nodiscard]] std::size_t at() const { return all_.size() - rest_.size(); }
  [[noreturn]] void fail(const std::string& what) const { fail(what, at()); }
  [[noreturn]] void fail(const std::string& what, std::size_t offset) const {
    const std::string_view before = all_.substr(0, offset);
    const auto line = 1 + std::ranges::count(before, '\n');
    const std::string_view in_line = before.substr(before.find_last_of('\n') + 1);
    const auto column = 1 + std::ranges::count_if(in_line, [](char c) {
                          return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
                        });
    throw ConstraintError("grammar: " + what,
                          "line " + std::to_string(line) + ", column " + std::to_string(column));
  }

  [[nodiscard]] bool ended() const { return rest_.empty(); }
  [[nodiscard]] char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char32_t code() {
    if (rest_.empty()) fail("the grammar ends too early");
    const Utf8Char c = first_char(rest_);
    rest_.remove_prefix(c.bytes);
    return c.code_point;
  }

  // White space and comments; line breaks only where a rule cannot end.
  void space(bool lines) {
    while (!rest_.empty()) {
      if (peek() == '#')
        rest_.remove_prefix(std::min(rest_.find_first_of("\r\n"), rest_.size()));
      else if (peek() == ' ' || peek() == '\t' || (lines && (peek() == '\n' || peek() == '\r')))
        rest_.remove_prefix(1);
      else
        return;
    }
  }

  static bool is_name_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
  }
  std::string name() {
    std::size_t n = 0;
    while (n < rest_.size() && is_name_char(rest_[n])) ++n;
    if (n == 0) fail("expected a name");
    const std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return out;
  }
  // A name with ::= behind it begins the next rule.
  [[nodiscard]] bool at_rule() const {
    std::size_t n = 0;
    while (n < rest_.size() && is_name_char(rest_[n])) ++n;
    if (n == 0) return false;
    while (n < rest_.size() && (rest_[n] == ' ' || rest_[n] == '\t')) ++n;
    return rest_.substr(n).starts_with("::=");
  }

  std::size_t number() {
    if (std::isdigit(static_cast<unsigned char>(peek())) == 0) fail("expected a number");
    std::size_t n = 0;
    for (; std::isdigit(static_cast<unsigned char>(peek())) != 0; rest_.remove_prefix(1))
      n = std::min<std::size_t>(n * 10 + static_cast<std::size_t>(peek() - '0'), 1'000'000'000);
    return n;
  }

  // One of a text or class, escapes resolved.
  char32_t character() {
    if (peek() == '\n' || peek() == '\r') fail("an unterminated string or character class");
    if (!take("\\")) return code();
    const std::size_t begin = at() - 1;
    const char32_t c = code();
    if (c == 'x' || c == 'u' || c == 'U') return hex(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    constexpr std::u32string_view kEscapes = U"nrt\\\"[]/^-'", kMeant = U"\n\r\t\\\"[]/^-'";
    const std::size_t i = kEscapes.find(c);
    if (i == kEscapes.npos) fail("an unknown escape", begin);
    return kMeant[i];
  }

 private:
  char32_t hex(std::size_t digits) {
    char32_t out = 0;
    for (std::size_t i = 0; i < digits; ++i, rest_.remove_prefix(1)) {
      const auto c = static_cast<unsigned char>(peek());
      if (std::isxdigit(c) == 0) fail("expected a hexadecimal digit");
      const int digit = std::isdigit(c) != 0 ? c - '0' : std::tolower(c) - 'a' + 10;
      out = out * 16 + static_cast<char32_t>(digit);
    }
    if (out > kLastCode || (out >= 0xD800 && out <= 0xDFFF)) fail("no code point");
    return out;
  }

  const std::string_view all_;
  std::string_view rest_;
};

class GbnfGrammar {
 public:
  GbnfGrammar(std::string_view text, AutomatonBuilder& builder) : in_(text), builder_(builder) {}

  RuleId read() {
    for (in_.space(true); !in_.ended(); in_.space(true)) rule();
    for (const auto& [name, rule] : rules_)
      if (!rule.defined) in_.fail("rule " + name + " is not defined", rule.at);
    const auto root = rules_.find("root");
    if (root == rules_.end()) in_.fail("missing rule: root");
    if (const auto recursive = builder_.left_recursive())
      in_.fail("left recursion", place_of(*recursive));
    return root->second.id;
  }

 private:
  struct Named {
    RuleId id;
    std::size_t at;
    bool defined;
  };

  // Place of a rule, or of the rule around a repetition's rule.
  [[nodiscard]] std::size_t place_of(RuleId id) const {
    const auto found = places_.find(id);
    return found == places_.end() ? 0 : found->second;
  }

  RuleId rule_named(const std::string& name, std::size_t at) {
    const auto [found, is_new] = rules_.try_emplace(name, Named{0, at, false});
    if (is_new) {
      found->second.id = builder_.rule();
      places_[found->second.id] = at;
      builder_.budget().bytes(128 + name.size());
    }
    return found->second.id;
  }

  void rule() {
    const std::size_t at = in_.at();
    const std::string name = in_.name();
    in_.space(false);
    if (!in_.take("::=")) in_.fail("expected ::=");
    const RuleId id = rule_named(name, at);
    Named& named = rules_.at(name);
    if (named.defined) in_.fail("rule " + name + " is defined twice", at);
    named.defined = true;
    named.at = places_[id] = at;
    in_.space(true);
    choice(builder_.start(id), builder_.end(id), 0);
    if (!in_.ended() && !line_ended_ && !in_.at_rule()) in_.fail("expected the end of the rule");
  }

  void choice(NodeId from, NodeId to, std::size_t depth) {
    constexpr std::size_t kDeepest = 200;
    if (depth > kDeepest) in_.fail("brackets are nested too deeply");
    for (;;) {
      const NodeId begin = builder_.node();
      builder_.silent(from, begin);
      sequence(begin, to, depth);
      const std::size_t here = in_.at();
      in_.space(true);
      if (!in_.take("|")) {
        line_ended_ = line_ended_ || in_.at() != here;
        return;
      }
      in_.space(true);
    }
  }

  void sequence(NodeId from, NodeId to, std::size_t depth) {
    line_ended_ = false;
    for (;;) {
      const std::size_t here = in_.at();
      in_.space(depth > 0);
      line_ended_ = in_.peek() == '\n' || in_.peek() == '\r';
      if (in_.ended() || line_ended_ || in_.peek() == '|' || in_.peek() == ')') break;
      if (depth == 0 && here != 0 && in_.at_rule()) break;
      from = in_.take("!") ? without_token(from, depth) : repeated(from, depth);
    }
    builder_.silent(from, to);
  }

  /// The rest of <TEXT>, a token, or of <[ID]>.
  std::string token_element(std::string_view close) {
    std::string text;
    while (!in_.take(close)) {
      builder_.budget().steps();
      append_utf8(text, in_.character());
      if (text.size() > 256) in_.fail("expected > behind the text of a token");
    }
    return text;
  }

  /// Reads <TEXT> or <[ID]> and returns it as it stands there.
  std::string named_token() {
    if (in_.take("<[")) return "<[" + token_element("]>") + "]>";
    if (!in_.take("<")) in_.fail("expected a token, such as <think>");
    return "<" + token_element(">") + ">";
  }

  /// Reads a token and * or + behind "!". It adds any text without the token: the automaton reads
  /// bytes, so it cannot ask for a single token of any text.
  NodeId without_token(NodeId from, std::size_t depth) {
    const std::size_t at = in_.at();
    const std::string token = named_token();
    in_.space(depth > 0);
    const bool some = in_.take("+");
    if (!some && !in_.take("*")) in_.fail("expected * or + behind an excluded token", at);
    const NodeId begin = builder_.node(), behind = builder_.node();
    builder_.silent(from, begin);
    builder_.text_until(begin, token, std::nullopt, behind, !some);
    return behind;
  }

  /// An element as a rule of its own: it may stand there several times.
  RuleId element(std::size_t depth) {
    const std::size_t at = in_.at();
    if (GbnfReader::is_name_char(in_.peek())) return rule_named(in_.name(), at);
    const RuleId id = builder_.rule();
    places_[id] = at;
    NodeId from = builder_.start(id);
    const NodeId to = builder_.end(id);
    if (in_.take("\"")) {
      std::string text;
      while (!in_.take("\"")) {
        builder_.budget().steps();
        append_utf8(text, in_.character());
      }
      builder_.text(from, text, to);
    } else if (in_.take("[")) {
      utf8_edges(builder_, from, bracket(), to);
    } else if (in_.take(".")) {
      utf8_edges(builder_, from, all_codes(), to);
    } else if (in_.peek() == '<') {
      const std::string token = named_token();
      if (token.starts_with("<["))
        builder_.control(from, token, to);
      else
        builder_.marker(from, token, to);
    } else if (in_.take("(")) {
      in_.space(true);
      choice(from, to, depth + 1);
      in_.space(true);
      if (!in_.take(")")) in_.fail("expected a closing bracket");
      line_ended_ = false;
    } else {
      in_.fail("expected a text, a class, a name or a group");
    }
    return id;
  }

  CodeSet bracket() {
    const bool negated = in_.take("^");
    std::vector<CodeRange> ranges;
    while (!in_.take("]")) {
      builder_.budget().steps();
      const std::size_t at = in_.at();
      CodeRange range{};
      range.low = range.high = in_.character();
      if (in_.peek() == '-') {
        in_.take("-");
        if (in_.peek() == ']')
          ranges.push_back({'-', '-'});
        else
          range.high = in_.character();
      }
      if (range.low > range.high) in_.fail("a range whose end is before its start", at);
      ranges.push_back(range);
    }
    const CodeSet set = normalized(std::move(ranges));
    return negated ? complement(set) : set;
  }

  NodeId repeated(NodeId from, std::size_t depth) {
    const std::size_t before = std::exchange(times_, 1);
    const RuleId one = element(depth);
    in_.space(depth > 0);  // a repetition may stand apart
    const NodeId behind = builder_.node();
    const auto own = [&] {  // loops here do not reach `from`
      const NodeId begin = builder_.node();
      builder_.silent(from, begin);
      return begin;
    };
    if (in_.take("*")) {
      const NodeId loop = own();
      builder_.call(loop, one, loop);
      builder_.silent(loop, behind);
    } else if (in_.take("+")) {
      const NodeId loop = builder_.node();
      builder_.call(from, one, loop);
      builder_.call(loop, one, loop);
      builder_.silent(loop, behind);
    } else if (in_.take("?")) {
      builder_.call(from, one, behind);
      builder_.silent(from, behind);
    } else if (in_.take("{")) {
      counted_times(one, from, behind);
    } else {
      builder_.call(from, one, behind);
      times_ = std::max(times_, before);
      return behind;
    }
    times_ = std::max(times_, before);
    constexpr std::string_view kRepetitions = "*+?{";
    if (in_.peek() == '\0' || kRepetitions.find(in_.peek()) == std::string_view::npos)
      return behind;
    in_.fail("a repetition of a repetition: put it in brackets");
  }

  void counted_times(RuleId one, NodeId from, NodeId behind) {
    constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();
    const std::size_t at = in_.at();
    in_.space(false);
    const std::size_t least = in_.number();
    in_.space(false);
    std::size_t most = least;
    if (in_.take(",")) {
      in_.space(false);
      most = in_.peek() == '}' ? kEndless : in_.number();
      in_.space(false);
    }
    if (!in_.take("}")) in_.fail("expected }");
    if (most < least) in_.fail("a repetition whose maximum is below its minimum", at);
    constexpr std::size_t kMaxTimes = 1'000'000;  // including the repetitions around it
    times_ *= std::max<std::size_t>(1, most == kEndless ? least : most);
    if (times_ > kMaxTimes) in_.fail("more than 1000000 repetitions within each other", at);
    for (std::size_t i = 0; i < (most == kEndless ? least : most); ++i) {
      if (i >= least) builder_.silent(from, behind);
      const NodeId next = builder_.node();
      builder_.call(from, one, next);
      from = next;
    }
    if (most == kEndless) {
      const NodeId loop = builder_.node();
      builder_.silent(from, loop);
      builder_.call(loop, one, loop);
      from = loop;
    }
    builder_.silent(from, behind);
  }

  GbnfReader in_;
  AutomatonBuilder& builder_;
  std::map<std::string, Named> rules_;
  std::map<RuleId, std::size_t> places_;
  bool line_ended_ = false;
  std::size_t times_ = 1;  // the most that the bounds allow of what has been read of the element
};

}  // namespace

std::shared_ptr<const Constraint> Constraint::gbnf(std::string_view grammar) {
  if (grammar.size() > kMaxConstraintText)
    throw ConstraintError("grammar: expected at most 256 KiB", "");
  Budget budget;
  AutomatonBuilder builder(budget);
  const RuleId root = GbnfGrammar(grammar, builder).read();
  return make_constraint(builder, root, "grammar");
}

}  // namespace cria
