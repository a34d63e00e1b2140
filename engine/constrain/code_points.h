// Sets of code points, automata over them, regular expressions, and how all are written in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/constrain/automaton.h"
#include "tokenizer/unicode/unicode.h"

namespace cria {

inline constexpr char32_t kLastCode = 0x10FFFF;
/// All code points but surrogates. The sets of this directory never contain surrogates.
CodeSet all_codes();
/// Puts ranges in order, joins those that touch, and takes surrogates out.
CodeSet normalized(std::vector<CodeRange> ranges);
CodeSet complement(const CodeSet& set);
CodeSet intersection(const CodeSet& a, const CodeSet& b);

/// Adds edges that read one code point of the set: as UTF-8, or in a JSON string. There quotes,
/// backslashes and control characters are escaped, and others may be.
void utf8_edges(AutomatonBuilder& builder, NodeId from, const CodeSet& set, NodeId to);
void json_char_edges(AutomatonBuilder& builder, NodeId from, const CodeSet& set, NodeId to);

/// Returns the code points of \p{…} in ECMAScript, or nullopt for an unknown property. It may be a
/// general category ("Lu", "Uppercase_Letter", "gc=Lu"), a script ("Script=Greek", "scx=Grek") or a
/// binary property ("Alphabetic").
std::optional<CodeSet> codes_with_property(std::string_view property, Budget& budget);

// Languages of texts as deterministic automata over code points: patterns, lengths, names that are
// taken.

/// Every state leads to an accepting one. Without states, the language is empty. The first state is
/// the start.
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
/// All other texts.
CharDfa complement(const CharDfa& dfa, Budget& budget);
/// Texts of [least, most] code points.
CharDfa with_length(const CharDfa& dfa, std::size_t least, std::size_t most, Budget& budget);
/// All texts but these.
CharDfa all_but(std::span<const std::string_view> texts, Budget& budget);

/// Edges that read one of its texts as UTF-8, or as it may stand in a JSON string, without the
/// quotes.
void text_edges(AutomatonBuilder& builder, NodeId from, const CharDfa& dfa, bool json, NodeId to);

struct RegexNode {
  enum class Kind : std::uint8_t {
    Codes,
    Sequence,
    Choice,
    Repeat,
    Begin,
    End,
    WordEdge,
    NoWordEdge
  };
  Kind kind = Kind::Sequence;
  CodeSet codes;
  std::vector<RegexNode> parts;     ///< one of a Repeat
  std::size_t least = 0, most = 0;  ///< for Repeat; kNoLimit: unlimited
};

/// Throws ConstraintError.
RegexNode parse_regex(std::string_view expression, Budget& budget);
/// The characters of \w.
CodeSet word_codes();

// Regular expressions of ECMA 262 (in Unicode mode, without look-around and back references) as
// automata.

/// Compiles the texts that match: as a whole, or with a match anywhere. Throws ConstraintError ("at
/// character 5") for an invalid or unsupported expression.
CharDfa regex_dfa(std::string_view expression, bool anywhere, Budget& budget);

}  // namespace cria
