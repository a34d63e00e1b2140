#include "engine/constrain/unicode_property.h"

#include <algorithm>
#include <string>

#include "model/file/utf8.h"
#include "tokenizer/regex.h"

namespace cria {
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
