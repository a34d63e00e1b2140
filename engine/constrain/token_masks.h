// Which tokens of a vocabulary a run can go on with: found once for a state, and remembered.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/constrain/plain_tokens.h"
#include "engine/constrain/runs.h"

namespace cria {

/// Of one automaton and one vocabulary; for several threads.
class TokenMasks {
 public:
  /// Both outlive it.
  TokenMasks(const Automaton& automaton, const TokenTrie& trie);

  /// Bytes of what is remembered.
  [[nodiscard]] std::size_t memory();

  /// A run's place. Not for several threads at once.
  class Run {
   public:
    /// trie: that of the masks.
    Run(std::shared_ptr<TokenMasks> masks, std::shared_ptr<const TokenTrie> trie);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// Tokens that may come next, end tokens where the text is whole.
    std::shared_ptr<const TokenBits> mask();
    /// False, and nothing else happens, where the token is none of the mask's.
    bool accept(TokenId token);
    /// Back to where the text has not begun.
    void restart();
    [[nodiscard]] bool whole() const;
    [[nodiscard]] bool finished() const;
    /// Text that must follow, at most so many bytes: as far as it is found at little cost. Changes
    /// nothing for mask() and accept(), nor does it fail.
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
  // Of the mask that is being found: states after 0, 1, … plain characters, and those on a walk's
  // path.
  std::array<Runs::State, PlainTokens::kMaxChars + 1> chain_{};
  std::vector<Runs::State> path_;
  std::vector<PlainEdges> plain_edges_;  // by kind
  std::vector<std::int8_t> loops_;       // by state: whether loops_plainly(); -1: not known
};

}  // namespace cria
