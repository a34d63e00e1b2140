// The texts of a vocabulary's tokens as a tree: what an automaton is walked along.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace cria {

/// Immutable. Control tokens and those that stand for nothing have no text.
struct TokenTrie {
  /// In preorder; the first is the root.
  struct Node {
    std::uint32_t end;          ///< one past the last node below it
    std::uint32_t first_token;  ///< in `tokens`; those of the next node follow this node's
    std::uint16_t depth;        ///< bytes
    std::uint8_t byte;          ///< the last of these
  };
  std::vector<Node> nodes;                                ///< and one more
  std::vector<TokenId> tokens;                            ///< in the order of their bytes
  std::vector<TokenId> ends;                              ///< end-of-generation tokens
  std::vector<std::pair<TokenId, std::string>> controls;  ///< other control tokens, as they are written
  std::size_t vocabulary_size = 0;

  /// Of the first `most` tokens.
  TokenTrie(const Tokenizer& tokenizer, std::size_t most);
};

}  // namespace cria
