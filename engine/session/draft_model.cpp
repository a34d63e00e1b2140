#include "engine/session/draft_model.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "engine/session/common_prefix.h"
#include "engine/session/logit_rows.h"
#include "engine/session/stop_on.h"

namespace cria {
namespace {

EngineOptions draft_options(EngineOptions options) {
  options.prefix_cache_bytes = 0;  // its positions are among the engine's
  return options;
}

bool same_tokens(const Vocabulary& a, const Vocabulary& b) {
  constexpr std::size_t kMaxPadding = 128;
  if (a.tokens.size() > b.tokens.size()) return same_tokens(b, a);
  return b.tokens.size() - a.tokens.size() <= kMaxPadding &&
         std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin());
}

}  // namespace

EngineMemory draft_memory(const Model& draft, const EngineOptions& options) {
  return engine_memory(draft, draft_options(options));
}

DraftModel::DraftModel(const Model& draft, const Model& model, const EngineOptions& options)
    : owner_(draft.shared_from_this()),
      engine_(draft, draft_options(options)),
      batch_(engine_),
      n_vocab_(std::min(draft.token_count(), model.token_count())) {
  if (!same_tokens(draft.vocabulary(), model.vocabulary()))
    throw draft.file().error("cannot draft for " + model.path() + ": expected the same vocabulary");
}

// What is not evaluated of the text and its draft, as far as there is room. Returns how many tokens
// that are.
std::size_t DraftModel::add(const DraftRequest& guess, std::size_t most_read) {
  const std::size_t n_text = guess.text.size(), all = n_text + guess.draft->size();
  if (guess.draft->size() >= guess.most || all >= engine_.options().n_ctx) return 0;
  Sequence& sequence = *guess.sequence;
  std::size_t known = sequence.tokens().size();
  if (guess.draft->empty()) {
    known = common_prefix(sequence.tokens(), guess.text.first(n_text - 1));
    known = known == 0 ? sequence.reuse(guess.text.first(n_text - 1)) : sequence.truncate(known);
  }
  const std::size_t n = std::min({all - known, batch_.room(), most_read});
  if (n == 0) return 0;
  added_.clear();
  for (std::size_t i = known; i < known + n; ++i)
    added_.push_back(i < n_text ? guess.text[i] : (*guess.draft)[i - n_text]);
  const bool complete = known + n == all;
  try {
    batch_.add(sequence, added_, complete ? n - 1 : n);
  } catch (const Error&) {  // a token that it has not, no room: a guess is no answer's condition
    return 0;
  }
  if (complete) complete_.push_back(&guess);
  return n;
}

// A token more for each. False: there was nothing to do.
bool DraftModel::pass(std::span<const DraftRequest> guesses, std::size_t& most_read) {
  batch_.clear();
  complete_.clear();
  for (const DraftRequest& guess : guesses) {
    const bool reads = guess.draft->empty();
    const std::size_t n = add(guess, reads ? most_read : 1);
    if (reads) most_read -= n;
  }
  if (batch_.size() == 0) return false;
  batch_.forward();
  for_each_row(engine_, batch_, 0, complete_.size(),
               [this](std::size_t i, std::span<const float> logits) {
                 const auto shared = logits.first(n_vocab_);
                 complete_[i]->draft->push_back(
                     static_cast<TokenId>(std::ranges::max_element(shared) - shared.begin()));
               });
  return true;
}

void DraftModel::guess(std::span<const DraftRequest> guesses, std::size_t most_read,
                       const std::atomic<bool>* stop) {
  const StopOn stop_on(engine_, stop);
  for (const DraftRequest& guess : guesses) guess.draft->clear();
  while (pass(guesses, most_read)) continue;
}

}  // namespace cria
