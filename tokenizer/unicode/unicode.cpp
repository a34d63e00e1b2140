#include "tokenizer/unicode/unicode.h"

#include <algorithm>
#include <iterator>

namespace cria {
namespace {

using Kind = UnicodeProperty;

struct Row {
  Kind kind;
  std::string_view names;   ///< separated by spaces
  std::string_view ranges;  ///< see make_data.py
};
constexpr Row kRows[] = {
#include "tokenizer/unicode/data.inc"
};

/// Unions of categories. The first name is the common prefix of theirs, but for LC.
constexpr std::string_view kCategoryGroups[] = {
    "L Letter", "M Mark Combining_Mark", "N Number", "P Punctuation punct",
    "S Symbol", "Z Separator",           "C Other",  "LC Cased_Letter"};

bool has_name(std::string_view names, std::string_view name) {
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(' ', at), names.size());
    if (names.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

/// f(number) for each number of a text that make_data.py has written.
template <class F>
void for_each_number(std::string_view text, F&& f) {
  constexpr std::uint32_t kBase = 45, kFirst = 35;
  std::uint32_t number = 0, factor = 1;
  for (const char symbol : text) {
    const char plain = symbol == '!' ? '\\' : symbol == '~' ? '?' : symbol;
    const std::uint32_t digit = static_cast<unsigned char>(plain) - kFirst;
    number += digit % kBase * factor;
    factor *= kBase;
    if (digit >= kBase) continue;
    f(number);
    number = 0;
    factor = 1;
  }
}

void append(CodeSet& set, std::string_view ranges) {
  std::uint32_t at = 0;
  bool inside = false;
  for_each_number(ranges, [&](std::uint32_t number) {
    if (inside) set.push_back({at, at + number - 1});
    inside = !inside;
    at += number;
  });
}

#include "tokenizer/unicode/mappings.inc"

/// Characters that a mapping changes, and what they become.
class CharacterMap {
 public:
  explicit CharacterMap(std::string_view text) {
    std::vector<std::uint32_t> numbers;
    for_each_number(text, [&](std::uint32_t number) { numbers.push_back(number); });
    char32_t at = 0;
    for (std::size_t i = 0; i < numbers.size();) {
      const std::uint32_t gap = numbers[i], length = numbers[i + 1], step = numbers[i + 2],
                          targets = numbers[i + 3];
      at += gap;
      std::u32string to;
      for (std::uint32_t t = 0; t < targets; ++t)
        to.push_back((to.empty() ? at : to.back()) + difference(numbers[i + 4 + t]));
      for (std::uint32_t n = 0; n < length; ++n) {
        entries_.push_back({at + n * step, to});
        for (char32_t& c : to) c += step;
      }
      at += (length - 1) * step;
      i += 4 + targets;
    }
  }
  /// What a character becomes; null: itself.
  [[nodiscard]] const std::u32string* find(char32_t code) const {
    const auto found = std::ranges::lower_bound(entries_, code, {}, &Entry::code);
    return found == entries_.end() || found->code != code ? nullptr : &found->to;
  }

 private:
  struct Entry {
    char32_t code;
    std::u32string to;
  };
  static std::uint32_t difference(std::uint32_t number) {  // modulo 2^32
    return number % 2 == 0 ? number / 2 : ~(number / 2);
  }
  std::vector<Entry> entries_;  ///< ascending
};

bool in_group(std::string_view group, std::string_view category) {
  if (group != "LC") return category.front() == group.front();
  return category == "Lu" || category == "Ll" || category == "Lt";
}

std::optional<CodeSet> group_set(std::string_view name) {
  const auto* const group = std::ranges::find_if(
      kCategoryGroups, [&](std::string_view names) { return has_name(names, name); });
  if (group == std::end(kCategoryGroups)) return std::nullopt;
  CodeSet parts, set;
  for (const Row& row : kRows)
    if (row.kind == Kind::Category &&
        in_group(group->substr(0, group->find(' ')), row.names.substr(0, 2)))
      append(parts, row.ranges);
  std::ranges::sort(parts);
  for (const CodeRange& part : parts) {
    if (!set.empty() && set.back().high + 1 == part.low)
      set.back().high = part.high;
    else
      set.push_back(part);
  }
  return set;
}

}  // namespace

bool contains(const CodeSet& set, char32_t code) {
  const auto after = std::ranges::upper_bound(set, code, {}, &CodeRange::low);
  return after != set.begin() && code <= std::prev(after)->high;
}

void append_lower_case(char32_t code, std::u32string& out) {
  static const CharacterMap mapping(kLowerCase);
  if (const std::u32string* const to = mapping.find(code))
    out += *to;
  else
    out += code;
}

void append_without_marks(char32_t code, std::u32string& out) {
  constexpr char32_t kHangul = 0xAC00, kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11A7;
  constexpr char32_t kVowels = 21, kTrailings = 28, kSyllables = 19 * kVowels * kTrailings;
  static const CharacterMap mapping(kWithoutMarks);
  static const CodeSet marks = *unicode_set(Kind::Category, "Mn");
  if (code >= kHangul && code < kHangul + kSyllables) {
    const char32_t index = code - kHangul, trailing = index % kTrailings;
    out += kLeading + index / (kVowels * kTrailings);
    out += kVowel + index / kTrailings % kVowels;
    if (trailing != 0) out += kTrailing + trailing;
  } else if (const std::u32string* const to = mapping.find(code)) {
    out += *to;
  } else if (!contains(marks, code)) {
    out += code;
  }
}

std::optional<CodeSet> unicode_set(UnicodeProperty kind, std::string_view name) {
  if (kind == Kind::Category)
    if (auto group = group_set(name)) return group;
  const auto* const row = std::ranges::find_if(
      kRows, [&](const Row& one) { return one.kind == kind && has_name(one.names, name); });
  if (row == std::end(kRows))  // most scripts have no extensions
    return kind == Kind::ScriptExtensions ? unicode_set(Kind::Script, name) : std::nullopt;
  CodeSet set;
  append(set, row->ranges);
  return set;
}

}  // namespace cria
