#include "tokenizer/bpe/pre_tokenizer.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "model/error.h"
#include "model/file/utf8.h"

namespace cria {
namespace {

constexpr char32_t kLongS = 0x17F, kKelvin = 0x212A, kFirstBeyondAscii = 0x80, kCodes = 0x110000;
constexpr std::size_t kMaxSets = 64;

CodeSet property_set(std::string_view name) {
  constexpr std::string_view kScript = "sc:";
  auto set = name.starts_with(kScript)
                 ? unicode_set(UnicodeProperty::Script, name.substr(kScript.size()))
                 : unicode_set(UnicodeProperty::Category, name);
  if (!set) throw Error("", "unknown Unicode property: " + std::string(name));
  return *set;
}

CodeSet white_space() { return *unicode_set(UnicodeProperty::Binary, "White_Space"); }

/// A character and those that differ from it only in case.
CodeSet any_case(char32_t c) {
  const char32_t lower = c | 0x20U;
  if (c > 0x7F || lower < 'a' || lower > 'z') return {{c, c}};
  CodeSet set = {{lower - 0x20, lower - 0x20}, {lower, lower}};
  if (lower == 's') set.push_back({kLongS, kLongS});
  if (lower == 'k') set.push_back({kKelvin, kKelvin});
  return set;
}

void append_byte(std::string& out, std::size_t byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out.append("\\x").append(1, kDigits[byte / 16]).append(1, kDigits[byte % 16]);
}

/// Reads an expression and replaces each set S of characters by members(S).
template <class Members>
class SetReplacer {
 public:
  SetReplacer(std::string_view expression, Members& members)
      : rest_(expression), members_(members) {}

  std::string run() {
    std::vector<bool> caseless = {false};  // by open group
    while (!rest_.empty()) {
      if (take("(?i:")) {
        caseless.push_back(true);
        out_ += "(?:";
      } else if (rest_[0] == '(') {
        caseless.push_back(caseless.back());
        copy(1);
      } else if (rest_[0] == ')') {
        caseless.pop_back();
        copy(1);
      } else if (rest_[0] == '[') {
        bracket(caseless.back());
      } else if (rest_[0] == '\\' && is_set(rest_[1])) {
        const bool negated = rest_[1] == 'S' || rest_[1] == 'P';
        set(property(), negated);
      } else if (rest_[0] == '\\' && rest_[1] != 'x') {
        copy(2);
      } else if (rest_[0] == '\\' || static_cast<unsigned char>(rest_[0]) >= 0x80) {
        const char32_t c = character();
        set({{c, c}}, false);
      } else if (caseless.back() && any_case(static_cast<unsigned char>(rest_[0])).size() > 1) {
        set(any_case(character()), false);
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  static bool is_set(char escaped) {
    return std::string_view("pPsSd").find(escaped) != std::string_view::npos;
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void copy(std::size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
  }
  void set(const CodeSet& codes, bool negated) {
    out_.append(negated ? "[^" : "[").append(members_(codes)).append("]");
  }
  /// Reads \p{NAME}, \s or \d, or the negation of one.
  CodeSet property() {
    const char escaped = rest_[1];
    rest_.remove_prefix(2);
    if (escaped == 's' || escaped == 'S') return white_space();
    if (escaped == 'd') return property_set("Nd");
    const std::size_t end = rest_.find('}');
    const std::string_view name = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return property_set(name);
  }
  char32_t character() {
    if (!take("\\")) {
      const Utf8Char c = first_char(rest_);
      rest_.remove_prefix(c.bytes);
      return c.code_point;
    }
    if (take("x{")) {
      std::uint32_t code = 0;
      const std::size_t end = rest_.find('}');
      std::from_chars(rest_.data(), rest_.data() + end, code, 16);
      rest_.remove_prefix(end + 1);
      return code;
    }
    const char escaped = rest_[0];
    rest_.remove_prefix(1);
    return escaped == 'r' ? '\r' : escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
  }
  void bracket(bool caseless) {
    take("[");
    out_ += take("^") ? "[^" : "[";
    CodeSet listed;
    while (!take("]")) {
      if (rest_[0] == '\\' && is_set(rest_[1])) {
        out_ += members_(property());
        continue;
      }
      const char32_t low = character();
      if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        take("-");
        listed.push_back({low, character()});
        continue;
      }
      const CodeSet same = caseless ? any_case(low) : CodeSet{{low, low}};
      listed.insert(listed.end(), same.begin(), same.end());
    }
    if (!listed.empty()) {
      std::ranges::sort(listed);
      CodeSet apart;
      for (const CodeRange& range : listed) {
        if (!apart.empty() && range.low <= apart.back().high + 1)
          apart.back().high = std::max(apart.back().high, range.high);
        else
          apart.push_back(range);
      }
      out_ += members_(apart);
    }
    out_ += ']';
  }

  std::string_view rest_;
  Members& members_;
  std::string out_;
};

}  // namespace

CharacterClasses::CharacterClasses(const std::vector<std::string_view>& expressions)
    : class_of_(kCodes) {
  auto collect = [this](const CodeSet& set) {
    if (std::ranges::find(sets_, set) == sets_.end()) sets_.push_back(set);
    return std::string();
  };
  for (const std::string_view expression : expressions) SetReplacer(expression, collect).run();
  if (sets_.size() > kMaxSets) throw Error("a pre-tokenizer names too many sets of characters");

  // A sweep over the places where a set begins or ends.
  std::map<char32_t, std::uint64_t> changes = {{kFirstBeyondAscii, 0}, {kCodes, 0}};
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    for (const CodeRange& range : sets_[i]) {
      changes[range.low] ^= std::uint64_t{1} << i;
      changes[range.high + 1] ^= std::uint64_t{1} << i;
    }
  }
  std::map<std::uint64_t, std::uint8_t> classes;  // by the sets that contain it
  std::uint64_t in = 0;
  for (auto at = changes.begin(); at->first < kCodes; ++at) {
    in ^= at->second;
    if (at->first < kFirstBeyondAscii) continue;
    const auto [found, is_new] =
        classes.emplace(in, static_cast<std::uint8_t>(kFirstBeyondAscii + examples_.size()));
    if (is_new) examples_.push_back(at->first);
    if (examples_.size() > 128) throw Error("a pre-tokenizer tells too many classes apart");
    std::fill(class_of_.begin() + at->first, class_of_.begin() + std::next(at)->first,
              found->second);
  }
  word_classes_.long_s = static_cast<char>(class_of_[kLongS]);
  const CodeSet letters = property_set("L"), numbers = property_set("N"), spaces = white_space();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::size_t beyond = byte - kFirstBeyondAscii;
    if (byte >= kFirstBeyondAscii && beyond >= examples_.size()) break;
    const char32_t c = byte < kFirstBeyondAscii ? static_cast<char32_t>(byte) : examples_[beyond];
    word_classes_.of[byte] = c == '\r' || c == '\n' ? WordClass::LineEnd
                             : contains(letters, c) ? WordClass::Letter
                             : contains(numbers, c) ? WordClass::Digit
                             : contains(spaces, c)  ? WordClass::Space
                                                    : WordClass::Other;
  }
}

std::string CharacterClasses::members(const CodeSet& set) const {
  std::string out;
  std::size_t first = 0;
  for (std::size_t byte = 0, run = 0; byte <= 256; ++byte) {
    const std::size_t beyond = byte - kFirstBeyondAscii;
    const bool in = byte < kFirstBeyondAscii ? contains(set, static_cast<char32_t>(byte))
                                             : byte < 256 && beyond < examples_.size() &&
                                                   contains(set, examples_[beyond]);
    if (in) {
      if (run++ == 0) first = byte;
      continue;
    }
    if (run > 0) append_byte(out, first);
    if (run > 1) append_byte(out += '-', byte - 1);
    run = 0;
  }
  return out;
}

std::string CharacterClasses::translate(std::string_view expression) const {
  const auto replace = [this](const CodeSet& set) { return members(set); };
  return SetReplacer(expression, replace).run();
}

void CharacterClasses::append_classes(std::string_view text, std::string& classes) const {
  classes.reserve(classes.size() + text.size());
  while (!text.empty()) {
    const std::size_t ascii = ascii_prefix(text);
    classes.append(text.substr(0, ascii));
    text.remove_prefix(ascii);
    while (!text.empty() && static_cast<unsigned char>(text[0]) >= 0x80) {
      const Utf8Char c = first_char(text);
      classes.push_back(static_cast<char>(class_of_[c.code_point]));
      text.remove_prefix(c.bytes);
    }
  }
}

}  // namespace cria
