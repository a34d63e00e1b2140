#include "engine/session/draft_model.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "engine/session/prefix_cache.h"

namespace cria {
namespace {

bool same_tokens(const Vocabulary& a, const Vocabulary& b) {
  constexpr std::size_t kMaxPadding = 128;
  if (a.tokens.size() > b.tokens.size()) return same_tokens(b, a);
  return b.tokens.size() - a.tokens.size() <= kMaxPadding &&
         std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin());
}

}  // namespace

DraftModel::DraftModel(const Model& draft, const Model& model, const EngineOptions& options)
    : engine_(draft, options),
      batch_(engine_),
      n_vocab_(std::min(draft.token_count(), model.token_count())) {
  if (!same_tokens(draft.vocabulary(), model.vocabulary()))
    throw draft.file().error("cannot draft for " + model.path() + ": expected the same vocabulary");
}

// Adds what is not evaluated of the text and its draft, if it fits. Returns the number of tokens.
std::size_t DraftModel::add(const DraftRequest& request, std::size_t most_read) {
  const std::size_t n_text = request.text.size(), all = n_text + request.draft->size();
  if (request.draft->size() >= request.most || all >= engine_.options().n_ctx) return 0;
  Sequence& sequence = *request.sequence;
  std::size_t known = sequence.tokens().size();
  if (request.draft->empty()) {
    known = common_prefix(sequence.tokens(), request.text.first(n_text - 1));
    known = known == 0 ? sequence.reuse(request.text.first(n_text - 1)) : sequence.truncate(known);
  }
  const std::size_t n = std::min({all - known, batch_.capacity_left(), most_read});
  if (n == 0) return 0;
  added_.clear();
  for (std::size_t i = known; i < known + n; ++i)
    added_.push_back(i < n_text ? request.text[i] : (*request.draft)[i - n_text]);
  const bool complete = known + n == all;
  try {
    batch_.add(sequence, added_, complete ? n - 1 : n);
  } catch (const Error&) {  // unknown token or full pool: the answer continues without a draft
    return 0;
  }
  if (complete) complete_.push_back(&request);
  return n;
}

// Adds a token to each draft. Returns false if there was nothing to do.
bool DraftModel::pass(std::span<const DraftRequest> requests, std::size_t& most_read) {
  batch_.clear();
  complete_.clear();
  for (const DraftRequest& request : requests) {
    const bool reads = request.draft->empty();
    const std::size_t n = add(request, reads ? most_read : 1);
    if (reads) most_read -= n;
  }
  if (batch_.size() == 0) return false;
  batch_.forward();
  batch_.for_each_row(0, complete_.size(), [this](std::size_t i, std::span<const float> logits) {
    const auto shared = logits.first(n_vocab_);
    complete_[i]->draft->push_back(
        static_cast<TokenId>(std::ranges::max_element(shared) - shared.begin()));
  });
  return true;
}

void DraftModel::write(std::span<const DraftRequest> requests, std::size_t most_read,
                       const std::atomic<bool>* stop) {
  const StopOn stop_on(engine_, stop);
  for (const DraftRequest& request : requests) request.draft->clear();
  while (pass(requests, most_read)) continue;
}

}  // namespace cria
