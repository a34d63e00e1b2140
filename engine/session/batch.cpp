// Batches: slices of sequences, one pass over the weights for all.
#include <cassert>

#include "engine/session/engine_state.h"

namespace cria {

Batch::State::State(Engine::State& e) : engine(e), plan(e.plan.shape.n_batch) {
  sequences.reserve(e.plan.shape.n_batch);
}

// Some may be gone already.
void Batch::State::drop_sequences() {
  for (Sequence::State* const s : sequences)
    if (std::ranges::count(engine.sequences, s) != 0) s->trim();
  sequences.clear();
}

Batch::Batch(Engine& engine) : state_(std::make_unique<State>(engine.state())) {}
Batch::~Batch() = default;

void Batch::clear() {
  state_->plan.clear();
  state_->drop_sequences();
  state_->n_wanted = 0;
}

std::size_t Batch::size() const noexcept { return state_->plan.all.end; }
std::size_t Batch::room() const noexcept { return state_->engine.plan.shape.n_batch - size(); }

std::size_t Batch::add(Sequence& sequence, std::span<const TokenId> tokens,
                       std::size_t first_wanted) {
  Sequence::State& s = sequence.state();
  assert(tokens.size() <= room() && std::ranges::count(state_->sequences, &s) == 0);
  s.check(tokens);
  s.make_room(tokens.size());
  state_->plan.add(tokens, s.tokens.size(), first_wanted, s.tables);
  state_->sequences.push_back(&s);
  const std::size_t index = state_->n_wanted;
  state_->n_wanted += tokens.size() - first_wanted;
  return index;
}

void Batch::forward() {
  Engine::State& engine = state_->engine;
  state_->plan.finish();
  engine.last = nullptr;
  try {
    engine.forward(state_->plan);
  } catch (...) {
    state_->drop_sequences();
    throw;
  }
  engine.last = state_.get();
  const BatchRows& rows = state_->plan.all;
  for (std::size_t i = 0; i < rows.slices.size(); ++i) {
    const auto& [begin, end, first_pos, pages] = rows.slices[i];
    state_->sequences[i]->append(std::span(rows.tokens).subspan(begin, end - begin));
  }
  state_->sequences.clear();
}

std::span<const float> Batch::logits(std::size_t begin, std::size_t end) {
  assert(state_->engine.last == state_.get());
  return state_->engine.logits(state_->plan, begin, end);
}

std::span<const float> Batch::hidden(std::size_t begin, std::size_t end) const {
  assert(state_->engine.last == state_.get());
  return state_->engine.executor.hidden(state_->plan, begin, end);
}

}  // namespace cria
