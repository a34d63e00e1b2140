// Languages of texts as deterministic automata over code points: patterns, lengths, names that are
// taken.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "engine/constrain/code_points.h"

namespace cria {

/// Every state leads to one that accepts; without states there is no text. The first is the start.
struct CharDfa {
  struct Edge {
    CodeRange codes;
    std::uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;  // ascending, apart
    bool accepts = false;
  };
  std::vector<State> states;

  [[nodiscard]] bool accepts(std::string_view utf8) const;
};

inline constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// Without the states that lead nowhere.
CharDfa trimmed(const CharDfa& dfa, Budget& budget);
/// Texts of both.
CharDfa product(const CharDfa& a, const CharDfa& b, Budget& budget);
/// Texts of [least, most] code points.
CharDfa with_length(const CharDfa& dfa, std::size_t least, std::size_t most, Budget& budget);
/// All texts but these.
CharDfa all_but(std::span<const std::string_view> texts, Budget& budget);

/// Edges that read one of its texts as UTF-8, or as it may stand in a JSON string, without the
/// quotes.
void text_edges(AutomatonBuilder& builder, NodeId from, const CharDfa& dfa, bool json, NodeId to);

}  // namespace cria
