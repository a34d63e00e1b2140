// The texts of a vocabulary's tokens as a tree: what an automaton is walked along.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constrain/plain_chars.h"
#include "tokenizer/tokenizer.h"

namespace cria {

struct PlainTokens;

/// Texts as a tree of their bytes. Immutable.
struct TextTrie {
  /// In preorder; the first is the root.
  struct Node {
    std::uint32_t end;          ///< one past the last node below it
    std::uint32_t first_token;  ///< in `tokens`; those of the next node follow this node's
    std::uint16_t depth;        ///< bytes
    std::uint8_t byte;          ///< the last of these
  };
  using Text = std::pair<std::string_view, TokenId>;
  static constexpr std::size_t kLongest = 0xFFFF;  ///< bytes of a text

  std::vector<Node> nodes;      ///< and one more
  std::vector<TokenId> tokens;  ///< in the order of their bytes
  std::uint16_t deepest = 0;    ///< bytes of the longest

  TextTrie() = default;
  /// None is empty or longer than kLongest.
  explicit TextTrie(std::vector<Text> texts);
};

/// Of a vocabulary. Control tokens and those that stand for nothing have no text.
struct TokenTrie : TextTrie {
  struct Texts {
    std::vector<std::string> texts;  ///< by token; "" for none
    std::vector<TokenId> ends;       ///< end-of-generation tokens
    std::vector<std::pair<TokenId, std::string>>
        controls;  ///< other control tokens, as they are written
  };
  std::vector<TokenId> ends;
  std::vector<std::pair<TokenId, std::string>> controls;
  std::size_t vocabulary_size = 0;
  /// By node: whether what follows in its texts is PlainKind::Json alone.
  std::vector<bool> plain_below;

  /// Of the first `most` tokens.
  static Texts texts_of(const Tokenizer& tokenizer, std::size_t most);
  explicit TokenTrie(Texts vocabulary);
  TokenTrie(const Tokenizer& tokenizer, std::size_t most);
  ~TokenTrie();

  /// "" for tokens that have none.
  [[nodiscard]] std::string_view text(TokenId token) const {
    return texts_[static_cast<std::size_t>(token)];
  }
  /// Made when it is first asked for. For several threads.
  const PlainTokens& plain_tokens(PlainKind kind) const;

 private:
  [[nodiscard]] std::vector<Text> texts() const;
  void find_plain();

  std::vector<std::string> texts_;
  struct Plain {
    std::once_flag made;
    std::unique_ptr<const PlainTokens> tokens;
  };
  mutable std::array<Plain, kPlainKinds> plain_;
};

}  // namespace cria
