#include "engine/constrain/constraint.h"

#include "engine/constrain/json_text.h"
#include "engine/constrain/token_masks.h"

namespace cria {

// The masks must not keep the trie: a model that is gone takes them along.
std::shared_ptr<TokenMasks> Constraint::State::masks(const std::shared_ptr<const TokenTrie>& trie) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(masks_, [](const auto& kept) { return kept.first.expired(); });
  for (const auto& [key, masks] : masks_)
    if (key.lock() == trie) return masks;
  masks_.emplace_back(trie, std::make_shared<TokenMasks>(automaton, *trie));
  return masks_.back().second;
}

std::size_t Constraint::State::memory() {
  const std::scoped_lock lock(mutex_);
  std::size_t bytes = automaton.memory();
  for (const auto& [key, masks] : masks_) bytes += masks->memory();
  return bytes;
}

Constraint::Constraint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Constraint::~Constraint() = default;

std::shared_ptr<const Constraint> Constraint::any_object() {
  Budget budget;
  AutomatonBuilder builder(budget);
  JsonText json(builder);
  const RuleId root = builder.rule();
  json.any_object(builder.start(root), builder.end(root));
  return make_constraint(builder, root, "form");
}

bool Constraint::accepts(std::string_view text) const {
  Runs runs(state_->automaton);
  return runs.whole(runs.next(runs.start(), text));
}

std::size_t Constraint::memory() const { return state_->memory(); }

bool Constraint::begins(std::string_view text) const {
  Runs runs(state_->automaton);
  return runs.next(runs.start(), text) != Runs::kDead;
}

std::shared_ptr<const Constraint> make_constraint(const AutomatonBuilder& builder, RuleId root,
                                                  std::string_view what,
                                                  Constraint::State::Calls calls) {
  std::optional<Automaton> automaton = builder.finish(root);
  if (!automaton) throw ConstraintError("no text satisfies the " + std::string(what), "");
  return std::make_shared<const Constraint>(
      std::make_unique<Constraint::State>(*std::move(automaton), calls));
}

}  // namespace cria
