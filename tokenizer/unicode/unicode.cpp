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

void append(CodeSet& set, std::string_view ranges) {
  constexpr std::uint32_t kBase = 45, kFirst = 35;
  std::uint32_t at = 0, number = 0, factor = 1;
  bool inside = false;
  for (const char symbol : ranges) {
    const char plain = symbol == '!' ? '\\' : symbol == '~' ? '?' : symbol;
    const std::uint32_t digit = static_cast<unsigned char>(plain) - kFirst;
    number += digit % kBase * factor;
    factor *= kBase;
    if (digit >= kBase) continue;
    if (inside) set.push_back({at, at + number - 1});
    inside = !inside;
    at += number;
    number = 0;
    factor = 1;
  }
}

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
