// Which tokens of a vocabulary a run can go on with: found once for a state, and remembered.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/constrain/runs.h"
#include "engine/constrain/token_trie.h"

namespace cria {

/// Bit id % 64 of word id / 64.
using TokenBits = std::vector<std::uint64_t>;

/// Of one automaton and one vocabulary; for several threads.
class TokenMasks {
 public:
  /// Both outlive it.
  TokenMasks(const Automaton& automaton, const TokenTrie& trie);

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
    [[nodiscard]] bool whole() const;
    [[nodiscard]] bool finished() const;
    /// The text that must follow, at most so many bytes.
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
  void walk(Runs::State& state, TokenBits& bits);
  [[nodiscard]] Runs::State after(Runs::State state, TokenId token);
  void limit_memory(std::vector<Runs::State*> also);

  const TokenTrie& trie_;
  std::mutex mutex_;
  Runs runs_;
  std::unordered_set<Run*> live_;
  std::list<Kept> kept_;  // the last used first
  std::unordered_map<Runs::State, std::list<Kept>::iterator> by_state_;
  std::vector<std::pair<TokenId, std::uint16_t>> controls_;  // and the class of their symbol
  std::vector<Runs::State> path_;
  std::vector<std::uint32_t> place_of_;  // by token: its node in the trie, or 0
  std::vector<std::uint32_t> parent_;    // by node of the trie
};

}  // namespace cria
