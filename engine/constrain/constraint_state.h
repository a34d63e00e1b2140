// What a constraint holds; for this room.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/constrain/constraint.h"
#include "engine/constrain/token_masks.h"

namespace cria {

struct Constraint::State {
  /// Of tools: the answer's reader takes them out of the text.
  enum class Calls : std::uint8_t {
    None,
    Only,
    AfterText,  ///< of any kind; until one begins, the text is whole everywhere
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
