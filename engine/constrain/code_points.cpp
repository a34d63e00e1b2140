#include "engine/constrain/code_points.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "model/file/utf8.h"

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

constexpr std::size_t kStepsOfProperty = 20'000;

std::optional<CodeSet> binary_set(std::string_view name) {
  if (name == "Any") return all_codes();
  if (name == "ASCII") return CodeSet{{0, 0x7F}};
  if (name == "Assigned")
    return complement(normalized(*unicode_set(UnicodeProperty::Category, "Cn")));
  return unicode_set(UnicodeProperty::Binary, name);
}

}  // namespace

std::optional<CodeSet> codes_with_property(std::string_view property, Budget& budget) {
  budget.steps(kStepsOfProperty);
  const std::size_t equals = property.find('=');
  const std::string_view key = property.substr(0, equals);
  std::optional<CodeSet> set;
  if (equals == std::string_view::npos) {
    set = unicode_set(UnicodeProperty::Category, property);
    if (!set) set = binary_set(property);
  } else {
    const std::string_view value = property.substr(equals + 1);
    if (key == "General_Category" || key == "gc")
      set = unicode_set(UnicodeProperty::Category, value);
    else if (key == "Script" || key == "sc")
      set = unicode_set(UnicodeProperty::Script, value);
    else if (key == "Script_Extensions" || key == "scx")
      set = unicode_set(UnicodeProperty::ScriptExtensions, value);
  }
  if (set) set = normalized(std::move(*set));
  return set;
}

}  // namespace cria
