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
  /// calls: the text has calls of tools in it, which the answer's reader takes out.
  State(Automaton compiled, bool with_calls) : automaton(std::move(compiled)), calls(with_calls) {}

  const Automaton automaton;
  const bool calls;

  /// The same object for the same trie, for as long as that lives.
  std::shared_ptr<TokenMasks> masks(const std::shared_ptr<const TokenTrie>& trie);

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::weak_ptr<const TokenTrie>, std::shared_ptr<TokenMasks>>> masks_;
};

/// From the builder's rule. Throws ConstraintError where no text is whole; what: "schema", "grammar", ….
std::shared_ptr<const Constraint> make_constraint(const AutomatonBuilder& builder, RuleId root,
                                                  std::string_view what, bool calls = false);

}  // namespace cria
