// A vocabulary's tokens by their leading plain characters. Most tokens need not be examined if a
// constraint treats these in the same way.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/constrain/constraint.h"
#include "engine/constrain/runs.h"
#include "engine/constrain/token_trie.h"

namespace cria {

/// Bit id % 64 of word id / 64.
using TokenBits = std::vector<std::uint64_t>;

inline void allow_token(TokenBits& bits, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  bits[id / 64] |= std::uint64_t{1} << id % 64;
}

/// Tokens for one class of characters. Immutable.
struct PlainTokens {
  /// In longer tokens, the character after these counts as the first that is not plain.
  static constexpr std::size_t kMaxChars = 32;

  /// whole[n]: tokens of at most n characters, all plain.
  std::array<TokenBits, kMaxChars + 1> whole;
  /// rests[n]: the other tokens, whose first n characters and no more are plain, without these
  /// characters.
  std::array<TextTrie, kMaxChars + 1> rests;

  PlainTokens(PlainKind kind, std::span<const TextTrie::Text> texts, std::size_t vocabulary_size);
};

// Allowed next tokens of a run: computed once per state, then cached.

/// The masks of one automaton and one vocabulary; thread-safe.
class TokenMasks {
 public:
  /// Both outlive it.
  TokenMasks(const Automaton& automaton, const TokenTrie& trie);

  /// Bytes of what is remembered.
  [[nodiscard]] std::size_t memory();

  /// A run's place. Not for several threads at once.
  class Run {
   public:
    /// trie: the one of the masks.
    Run(std::shared_ptr<TokenMasks> masks, std::shared_ptr<const TokenTrie> trie);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// Allowed next tokens; end tokens if the text is complete.
    std::shared_ptr<const TokenBits> mask();
    /// Returns false, without any effect, if the mask does not contain the token.
    bool accept(TokenId token);
    /// Returns to the empty text.
    void restart();
    [[nodiscard]] bool whole() const;
    [[nodiscard]] bool finished() const;
    /// Returns text that must follow, at most `most` bytes, as far as it is cheap to find. Does not
    /// affect mask() and accept(), and does not throw.
    std::string forced(std::size_t most);

   private:
    friend class TokenMasks;
    const std::shared_ptr<TokenMasks> masks_;
    const std::shared_ptr<const TokenTrie> trie_;
    Runs::State state_;
  };

 private:
  struct Kept {
    Runs::State state;
    std::shared_ptr<const TokenBits> bits;
  };
  std::shared_ptr<const TokenBits> mask(Runs::State& state);
  std::shared_ptr<const TokenBits> find(Runs::State& state);
  bool find_plain(PlainKind kind, TokenBits& bits);
  [[nodiscard]] PlainEdges::Reads reads(PlainKind kind, Runs::State state);
  bool loops_plainly(Runs::State state);
  void walk(const TextTrie& trie, std::size_t begin, TokenBits& bits);
  [[nodiscard]] Runs::State after(Runs::State state, TokenId token);
  void limit_memory(std::vector<Runs::State*> also);

  const TokenTrie& trie_;
  std::mutex mutex_;
  Runs runs_;
  std::unordered_set<Run*> live_;
  std::list<Kept> kept_;  // the last used first
  std::unordered_map<Runs::State, std::list<Kept>::iterator> by_state_;
  std::vector<std::pair<TokenId, std::uint16_t>> controls_;  // and the class of their symbol
  // For the mask in progress: states after 0, 1, … plain characters, and those on a walk's path.
  std::array<Runs::State, PlainTokens::kMaxChars + 1> chain_{};
  std::vector<Runs::State> path_;
  std::vector<PlainEdges> plain_edges_;  // by kind
  std::vector<std::int8_t> loops_;       // by state: whether loops_plainly(); -1: not known
};

// A constraint's internal state.

struct Constraint::State {
  /// Tool calls: the answer's reader takes them out of the text.
  enum class Calls : std::uint8_t {
    None,
    Only,
    AfterText,  ///< any kind; until one begins, the text is complete everywhere
    OrFormat,   ///< the answer is calls, or text that is constrained too
  };
  State(Automaton compiled, Calls in_it) : automaton(std::move(compiled)), calls(in_it) {}

  const Automaton automaton;
  const Calls calls;

  /// The same object for the same trie, for as long as that lives.
  std::shared_ptr<TokenMasks> masks(const std::shared_ptr<const TokenTrie>& trie);
  /// Bytes of all.
  [[nodiscard]] std::size_t memory();

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::weak_ptr<const TokenTrie>, std::shared_ptr<TokenMasks>>> masks_;
};

/// From the builder's rule. Throws ConstraintError where no text is whole; what: "schema",
/// "grammar", ….
std::shared_ptr<const Constraint> make_constraint(
    const AutomatonBuilder& builder, RuleId root, std::string_view what,
    Constraint::State::Calls calls = Constraint::State::Calls::None);

}  // namespace cria
