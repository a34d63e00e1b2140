// Classes of characters that make up much of a vocabulary and that constraints often treat in the
// same way; a vocabulary's tokens as a trie.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constrain/automaton.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// From large to small.
enum class PlainKind : std::uint8_t {
  JsonString,  ///< stands for itself in a JSON string: not ", \ or control; without U+007F
               ///< characters
  Ascii,       ///< the same below U+0080
  Word,        ///< [A-Za-z0-9_]
  Letters,     ///< [A-Za-z]
  Small,       ///< [a-z]
};
inline constexpr std::size_t kPlainKinds = 5;

/// Bytes of the first character of a text if it is one of the class, else 0.
std::size_t plain_char(PlainKind kind, std::string_view text);
/// A byte that is such a character.
inline constexpr unsigned char kPlainByte = 'a';

/// The effect of a class of characters on an automaton's nodes.
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

// The texts of a vocabulary's tokens as a tree: what an automaton is walked along.

struct PlainTokens;

/// Texts as a tree of their bytes. Immutable.
struct TextTrie {
  /// In preorder; the first is the root.
  struct Node {
    std::uint32_t end;          ///< one past the last node below it
    std::uint32_t first_token;  ///< index in `tokens`; the next node's tokens follow
    std::uint16_t depth;        ///< bytes
    std::uint8_t byte;          ///< last byte of the path to the node
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

/// The trie of a vocabulary. Control tokens and tokens without text are not in it.
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
  /// plain_below[node]: true if all texts continue with PlainKind::JsonString only.
  std::vector<bool> plain_below;

  /// Texts of the first `most` tokens.
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
