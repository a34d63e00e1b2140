#include "engine/constrain/code_points.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "model/file/utf8.h"
#include "tokenizer/regex.h"

namespace cria {

namespace {

struct DigitRange {
  std::uint8_t low, high;
};
using Digits = std::vector<DigitRange>;

// Writes the numbers [low, high], with a given number of digits of a given number of bits, as
// products of ranges of digits.
void split_digits(char32_t low, char32_t high, unsigned digits, unsigned bits, Digits& prefix,
                  std::vector<Digits>& out) {
  if (digits == 0) {
    out.push_back(prefix);
    return;
  }
  const unsigned shift = (digits - 1) * bits;
  const char32_t rest = (char32_t{1} << shift) - 1;
  const auto part = [&](char32_t first, char32_t last, char32_t from, char32_t to) {
    prefix.push_back({static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)});
    split_digits(from, to, digits - 1, bits, prefix, out);
    prefix.pop_back();
  };
  char32_t first = low >> shift;
  const char32_t last = high >> shift;
  if (first == last) return part(first, last, low & rest, high & rest);
  if ((low & rest) != 0) {
    part(first, first, low & rest, rest);
    ++first;
  }
  const bool whole_last = (high & rest) == rest;
  if (first <= last && (whole_last || first < last))
    part(first, whole_last ? last : last - 1, 0, rest);
  if (!whole_last) part(last, last, 0, high & rest);
}

std::vector<Digits> split_digits(char32_t low, char32_t high, unsigned digits, unsigned bits) {
  std::vector<Digits> out;
  Digits prefix;
  split_digits(low, high, digits, bits, prefix, out);
  return out;
}

// Edges through sequences of ranges of bytes; sequences with the same end share its nodes.
class SequenceEdges {
 public:
  SequenceEdges(AutomatonBuilder& builder, NodeId to) : builder_(builder), to_(to) {}

  /// hex: digits as they are written, in both cases; else bytes.
  void add(NodeId from, const Digits& sequence, bool hex) {
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      const NodeId next = node_before(sequence, i + 1, hex);
      read(from, sequence[i], hex, next);
      from = next;
    }
  }

 private:
  NodeId node_before(const Digits& sequence, std::size_t at, bool hex) {
    if (at == sequence.size()) return to_;
    std::string key(1, hex ? 'h' : 'b');
    for (std::size_t i = at; i < sequence.size(); ++i)
      (key += static_cast<char>(sequence[i].low)) += static_cast<char>(sequence[i].high);
    const auto [found, is_new] = nodes_.try_emplace(std::move(key), 0);
    if (!is_new) return found->second;
    const NodeId made = builder_.node();
    found->second = made;
    add(made, Digits(sequence.begin() + static_cast<std::ptrdiff_t>(at), sequence.end()), hex);
    return made;
  }

  void read(NodeId from, DigitRange range, bool hex, NodeId next) {
    if (!hex) return edge_once(from, range.low, range.high, next);
    if (range.low < 10) edge_once(from, '0' + range.low, '0' + std::min<int>(range.high, 9), next);
    if (range.high < 10) return;
    const int low = std::max<int>(range.low, 10) - 10, high = range.high - 10;
    edge_once(from, 'a' + low, 'a' + high, next);
    edge_once(from, 'A' + low, 'A' + high, next);
  }

  void edge_once(NodeId from, int low, int high, NodeId next) {
    if (done_.try_emplace({from, next, low, high}, true).second)
      builder_.edge(from, static_cast<Symbol>(low), static_cast<Symbol>(high), next);
  }

  AutomatonBuilder& builder_;
  const NodeId to_;
  std::map<std::string, NodeId> nodes_;
  std::map<std::tuple<NodeId, NodeId, int, int>, bool> done_;
};

void utf8_sequences(NodeId from, const CodeSet& set, SequenceEdges& edges) {
  struct Form {
    CodeRange codes;
    std::uint8_t lead;
    unsigned bytes;
  };
  constexpr Form kForms[] = {{{0, 0x7F}, 0, 1},
                             {{0x80, 0x7FF}, 0xC0, 2},
                             {{0x800, 0xFFFF}, 0xE0, 3},
                             {{0x10000, kLastCode}, 0xF0, 4}};
  for (const CodeRange& range : set) {
    for (const Form& form : kForms) {
      const char32_t low = std::max(range.low, form.codes.low),
                     high = std::min(range.high, form.codes.high);
      if (low > high) continue;
      if (form.bytes == 1) {
        edges.add(from, {{static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high)}}, false);
        continue;
      }
      for (Digits& digits : split_digits(low, high, form.bytes, 6)) {
        for (std::size_t i = 0; i < digits.size(); ++i) {
          const std::uint8_t mark = i == 0 ? form.lead : 0x80;
          digits[i].low |= mark, digits[i].high |= mark;
        }
        edges.add(from, digits, false);
      }
    }
  }
}

// Code points beyond U+FFFF: two halves of ten bits, the second in an escape of its own.
void surrogate_edges(AutomatonBuilder& builder, NodeId from, CodeRange range, NodeId to) {
  const auto part = [&](char32_t high0, char32_t high1, char32_t low0, char32_t low1) {
    const NodeId between = builder.node(), second = builder.node();
    SequenceEdges into(builder, between), out(builder, to);
    for (const Digits& digits : split_digits(0xD800 + high0, 0xD800 + high1, 4, 4))
      into.add(from, digits, true);
    builder.text(between, "\\u", second);
    for (const Digits& digits : split_digits(0xDC00 + low0, 0xDC00 + low1, 4, 4))
      out.add(second, digits, true);
  };
  const char32_t first = range.low - 0x10000, last = range.high - 0x10000;
  const char32_t high0 = first >> 10, high1 = last >> 10, low0 = first & 0x3FF, low1 = last & 0x3FF;
  if (high0 == high1) return part(high0, high0, low0, low1);
  part(high0, high0, low0, 0x3FF);
  if (high0 + 1 < high1) part(high0 + 1, high1 - 1, 0, 0x3FF);
  part(high1, high1, 0, low1);
}

}  // namespace

CodeSet all_codes() { return {{0, 0xD7FF}, {0xE000, kLastCode}}; }

CodeSet normalized(std::vector<CodeRange> ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::low);
  CodeSet joined;
  for (const CodeRange& range : ranges) {
    if (range.low > range.high) continue;
    if (!joined.empty() && range.low <= joined.back().high + 1)
      joined.back().high = std::max(joined.back().high, range.high);
    else
      joined.push_back(range);
  }
  return intersection(joined, all_codes());
}

CodeSet complement(const CodeSet& set) {
  std::vector<CodeRange> out;
  char32_t next = 0;
  for (const CodeRange& range : set) {
    if (range.low > next) out.push_back({next, range.low - 1});
    next = range.high + 1;
  }
  if (next <= kLastCode) out.push_back({next, kLastCode});
  return intersection(out, all_codes());
}

CodeSet intersection(const CodeSet& a, const CodeSet& b) {
  CodeSet out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t low = std::max(a[i].low, b[j].low), high = std::min(a[i].high, b[j].high);
    if (low <= high) out.push_back({low, high});
    (a[i].high < b[j].high ? i : j) += 1;
  }
  return out;
}

bool contains(const CodeSet& set, char32_t code) {
  const auto after = std::ranges::upper_bound(set, code, {}, &CodeRange::low);
  return after != set.begin() && code <= std::prev(after)->high;
}

void utf8_edges(AutomatonBuilder& builder, NodeId from, const CodeSet& set, NodeId to) {
  SequenceEdges edges(builder, to);
  utf8_sequences(from, set, edges);
}

void json_char_edges(AutomatonBuilder& builder, NodeId from, const CodeSet& set, NodeId to) {
  SequenceEdges edges(builder, to);
  utf8_sequences(from, intersection(set, {{0x20, '!'}, {'#', '['}, {']', kLastCode}}), edges);
  const NodeId escape = builder.node(), unicode = builder.node();
  builder.edge(from, '\\', '\\', escape);
  builder.edge(escape, 'u', 'u', unicode);
  constexpr std::pair<char, char32_t> kShort[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},
                                                  {'b', 0x08}, {'f', 0x0C},  {'n', '\n'},
                                                  {'r', '\r'}, {'t', '\t'}};
  for (const auto& [letter, code] : kShort)
    if (contains(set, code))
      builder.edge(escape, static_cast<Symbol>(letter), static_cast<Symbol>(letter), to);
  for (const CodeRange& range : set) {
    if (range.low <= 0xFFFF)
      for (const Digits& digits :
           split_digits(range.low, std::min<char32_t>(range.high, 0xFFFF), 4, 4))
        edges.add(unicode, digits, true);
    if (range.high > 0xFFFF)
      surrogate_edges(builder, unicode, {std::max<char32_t>(range.low, 0x10000), range.high}, to);
  }
}

namespace {

constexpr std::size_t kStepsOfProperty = 200'000;

// Names that PCRE2 does not know, with those that it does.
constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
    {"Cased_Letter", "LC"},
    {"Close_Punctuation", "Pe"},
    {"Connector_Punctuation", "Pc"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Currency_Symbol", "Sc"},
    {"Dash_Punctuation", "Pd"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Enclosing_Mark", "Me"},
    {"Final_Punctuation", "Pf"},
    {"Format", "Cf"},
    {"Letter", "L"},
    {"Initial_Punctuation", "Pi"},
    {"Letter_Number", "Nl"},
    {"Line_Separator", "Zl"},
    {"Lowercase_Letter", "Ll"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Math_Symbol", "Sm"},
    {"Modifier_Letter", "Lm"},
    {"Modifier_Symbol", "Sk"},
    {"Nonspacing_Mark", "Mn"},
    {"Number", "N"},
    {"Open_Punctuation", "Ps"},
    {"Other", "C"},
    {"Other_Letter", "Lo"},
    {"Other_Number", "No"},
    {"Other_Punctuation", "Po"},
    {"Other_Symbol", "So"},
    {"Paragraph_Separator", "Zp"},
    {"Private_Use", "Co"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Spacing_Mark", "Mc"},
    {"Surrogate", "Cs"},
    {"Symbol", "S"},
    {"Titlecase_Letter", "Lt"},
    {"Unassigned", "Cn"},
    {"Uppercase_Letter", "Lu"}};

// What PCRE2 calls a general category; nothing if it is none.
std::string category(std::string_view name) {
  for (const auto& [long_name, short_name] : kLongNames)
    if (name == long_name || name == short_name) return std::string(short_name);
  return "";
}

bool is_name(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::optional<Regex> characters_of(const std::string& name) {
  try {
    return Regex("\\p{" + name + "}++");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Regex> characters_with(std::string_view property) {
  const std::size_t equals = property.find('=');
  const std::string_view key = property.substr(0, equals);
  if (equals == std::string_view::npos) {
    if (const std::string known = category(property); !known.empty()) return characters_of(known);
    if (property == "space") return characters_of("White_Space");
    // PCRE2 has scripts, other spellings and properties of its own besides, which are none in
    // ECMAScript.
    const bool own = property.empty() || property[0] < 'A' || property[0] > 'Z' ||
                     (property[0] == 'X' && !property.starts_with("XID"));
    if (own || !is_name(property) || characters_of("sc:" + std::string(property)))
      return std::nullopt;
    return characters_of(std::string(property));
  }
  const std::string_view value = property.substr(equals + 1);
  if (!is_name(value)) return std::nullopt;
  if (key == "General_Category" || key == "gc") {
    const std::string known = category(value);
    return known.empty() ? std::nullopt : characters_of(known);
  }
  if (key == "Script" || key == "sc") return characters_of("sc:" + std::string(value));
  if (key == "Script_Extensions" || key == "scx") return characters_of("scx:" + std::string(value));
  return std::nullopt;
}

std::string text_of_all_codes() {
  std::string text;
  for (const CodeRange& range : all_codes())
    for (char32_t code = range.low; code <= range.high; ++code) append_utf8(text, code);
  return text;
}

}  // namespace

std::optional<CodeSet> codes_with_property(std::string_view property, Budget& budget) {
  budget.steps(kStepsOfProperty);
  if (property == "Assigned") {
    const auto unassigned = codes_with_property("Cn", budget);
    return complement(*unassigned);
  }
  const std::optional<Regex> characters = characters_with(property);
  if (!characters) return std::nullopt;
  const std::string text = text_of_all_codes();
  const auto code_at = [&](std::size_t at) {
    return first_char(std::string_view(text).substr(at)).code_point;
  };
  std::vector<CodeRange> ranges;
  Regex::Search search(*characters);
  for (auto span = search.next(text, 0); span; span = search.next(text, span->end)) {
    std::size_t last = span->end - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0U) == 0x80) --last;
    ranges.push_back({code_at(span->begin), code_at(last)});
  }
  return normalized(std::move(ranges));
}

}  // namespace cria
