// Classes of characters that much of a vocabulary is made of, and that a constraint often treats
// alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/constrain/automaton.h"

namespace cria {

/// From large to small.
enum class PlainKind : std::uint8_t {
  Json,     ///< what stands for itself in a JSON string, but U+007F: not " and \ and control
            ///< characters
  Ascii,    ///< likewise, below U+0080
  Word,     ///< [A-Za-z0-9_]
  Letters,  ///< [A-Za-z]
  Small,    ///< [a-z]
};
inline constexpr std::size_t kPlainKinds = 5;

/// Bytes of the first character of a text if it is one of the class, else 0.
std::size_t plain_char(PlainKind kind, std::string_view text);
/// A byte that is such a character.
inline constexpr unsigned char kPlainByte = 'a';

/// What the nodes of an automaton do with the characters of a class.
class PlainEdges {
 public:
  /// The automaton must outlive it.
  PlainEdges(const Automaton& automaton, PlainKind kind) : automaton_(automaton), kind_(kind) {}

  enum class Reads : std::uint8_t {
    Unknown,
    None,
    All,    ///< each leads to the same node, as kPlainByte does
    Mixed,  ///< neither
  };
  Reads of(NodeId node) {
    if (known_.empty()) known_.resize(automaton_.nodes.size());
    return known_[node] != Reads::Unknown ? known_[node] : known_[node] = find(node);
  }

 private:
  [[nodiscard]] Reads find(NodeId node) const;

  const Automaton& automaton_;
  PlainKind kind_;
  std::vector<Reads> known_;
};

}  // namespace cria
