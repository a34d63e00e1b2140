// Sets of Unicode characters by property, from a table of our own: results do not depend on the
// Unicode version of a system's library. make_data.py writes the table and names its version.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

struct CodeRange {
  char32_t low, high;
  auto operator<=>(const CodeRange&) const = default;
};
/// Ascending and apart.
using CodeSet = std::vector<CodeRange>;

/// True if the set contains the character.
bool contains(const CodeSet& set, char32_t code);

enum class UnicodeProperty : std::uint8_t { Category, Script, ScriptExtensions, Binary };

/// Appends the character in lower case, without regard to its neighbours.
void append_lower_case(char32_t code, std::u32string& out);
/// Appends its canonical decomposition (NFD) without nonspacing marks. Other marks keep their
/// order.
void append_without_marks(char32_t code, std::u32string& out);

/// The characters with a property, or nullopt for an unknown name. Names are short or long
/// ("Lu", "Uppercase_Letter", "Han", "Hani"), in the database's spelling.
std::optional<CodeSet> unicode_set(UnicodeProperty kind, std::string_view name);

}  // namespace cria
