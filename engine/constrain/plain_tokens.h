// The tokens of a vocabulary by the plain characters that they begin with: where a constraint takes
// all these alike, most tokens are known without looking at them.
#pragma once

#include <array>
#include <span>

#include "engine/constrain/token_trie.h"

namespace cria {

/// Bit id % 64 of word id / 64.
using TokenBits = std::vector<std::uint64_t>;

inline void allow_token(TokenBits& bits, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  bits[id / 64] |= std::uint64_t{1} << id % 64;
}

/// Of one class of characters. Immutable.
struct PlainTokens {
  /// Of what is longer, the rest is taken for the first that is not plain.
  static constexpr std::size_t kMaxChars = 32;

  /// By n: tokens of at most n characters that are all plain.
  std::array<TokenBits, kMaxChars + 1> whole;
  /// By n: the other tokens whose first n characters are plain and no more of them, without these
  /// characters.
  std::array<TextTrie, kMaxChars + 1> rests;

  PlainTokens(PlainKind kind, std::span<const TextTrie::Text> texts, std::size_t vocabulary_size);
};

}  // namespace cria
