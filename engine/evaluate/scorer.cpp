#include "engine/evaluate/scorer.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "engine/session/common_prefix.h"
#include "engine/session/engine_state.h"

namespace cria {

// A text that begins as one that is being read waits until that has been read.
bool Scorer::may_begin(const Scoring& text) const {
  constexpr std::size_t kWorthWaiting = 16;  // tokens
  if (engine_.state().must_wait(Engine::pages_of(text.tokens.size()))) return false;
  return !shared_ || std::ranges::none_of(live_, [&text](const Scoring* other) {
    const std::size_t common = common_prefix(other->tokens, text.context());
    return common >= kWorthWaiting && common > other->done();
  });
}

void Scorer::begin(Scoring& text) {
  text.sequence.emplace(engine_, scope_, shared_);
  text.sequence->state().reserved_pages = Engine::pages_of(text.tokens.size());
  if (shared_) text.sequence->reuse(text.context());
  live_.push_back(&text);
}

void Scorer::add_to(Batch& batch, Scoring& text) {
  const std::size_t done = text.done();
  const std::size_t n = std::min(batch.room(), text.tokens.size() - 1 - done);
  if (n == 0) return;
  const std::size_t wanted = std::clamp(text.first - 1, done, done + n);
  batch.add(*text.sequence, text.tokens.subspan(done, n), wanted - done);
  for (std::size_t i = wanted; i < done + n; ++i) rows_.push_back({&text, i + 1, true});
}

void Scorer::fill(Batch& batch, bool may_wait) {
  rows_.clear();
  for (Scoring* const text : live_) add_to(batch, *text);
  while (next_ < texts_.size() && batch.room() > 0 &&
         (may_begin(texts_[next_]) || (live_.empty() && !may_wait))) {
    begin(texts_[next_++]);
    add_to(batch, *live_.back());
  }
}

bool Scorer::pass(const ScorerHooks& hooks) {
  if (live_.empty() && next_ == texts_.size()) return false;
  Batch batch(engine_);
  fill(batch, hooks.wait != nullptr);
  const std::size_t n = batch.size();
  if (n == 0) return hooks.wait(), true;
  if (!hooks.forward(batch)) return true;
  evaluated_ += n;
  take_rows(batch, hooks);
  std::erase_if(live_, [](Scoring* text) {
    const bool over = text->over();
    if (over) text->sequence.reset();
    return over;
  });
  return true;
}

void Scorer::take_rows(Batch& batch, const ScorerHooks& hooks) {
  const std::size_t n_vocab = engine_.model().vocabulary_size();
  for (std::size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
    hooks.before_logits();
    end = std::min(rows_.size(), begin + engine_.logit_rows());
    const std::span<const float> logits = batch.logits(begin, end);
    engine_.parallel(end - begin, [&](std::size_t i) {
      take(rows_[begin + i], logits.subspan(i * n_vocab, n_vocab));
    });
    for (const Row& row : std::span(rows_).subspan(begin, end - begin))
      if (!row.finite) throw engine_.not_finite(*row.of->sequence, row.token - 1);
  }
}

void Scorer::take(Row& row, std::span<const float> logits) const {
  row.finite = all_finite(logits);
  if (!row.finite) return;
  const double log_sum = engine_.options().kernels->log_sum_exp(logits.data(), logits.size());
  const auto target = static_cast<std::size_t>(row.of->tokens[row.token]);
  const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  row.of->to[row.token - row.of->first] = {logits[target] - log_sum,
                                           static_cast<TokenId>(likeliest)};
}

}  // namespace cria
