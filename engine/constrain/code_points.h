// Sets of code points, and how each is written in bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "engine/constrain/automaton.h"

namespace cria {

struct CodeRange {
  char32_t low, high;
  auto operator<=>(const CodeRange&) const = default;
};
/// Ascending, apart from each other; without surrogates.
using CodeSet = std::vector<CodeRange>;

inline constexpr char32_t kLastCode = 0x10FFFF;
/// All code points but surrogates.
CodeSet all_codes();
/// Puts ranges in order, joins those that touch, and takes surrogates out.
CodeSet normalized(std::vector<CodeRange> ranges);
CodeSet complement(const CodeSet& set);
CodeSet intersection(const CodeSet& a, const CodeSet& b);
bool contains(const CodeSet& set, char32_t code);

/// Edges that read one code point of the set: as UTF-8, or as it may stand in a JSON string
/// (escapes of every kind; quotes, backslashes and control characters by escapes alone).
void utf8_edges(AutomatonBuilder& builder, NodeId from, const CodeSet& set, NodeId to);
void json_char_edges(AutomatonBuilder& builder, NodeId from, const CodeSet& set, NodeId to);

}  // namespace cria
