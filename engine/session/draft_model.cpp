#include "engine/session/draft_model.h"

#include <algorithm>
#include <array>

#include "engine/model_parts.h"
#include "engine/session/draft_control.h"
#include "engine/session/engine_state.h"
#include "engine/session/prefix_cache.h"

namespace cria {
namespace {

bool same_tokens(const Vocabulary& a, const Vocabulary& b) {
  constexpr std::size_t kMaxPadding = 128;
  if (a.tokens.size() > b.tokens.size()) return same_tokens(b, a);
  return b.tokens.size() - a.tokens.size() <= kMaxPadding &&
         std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin());
}

// Hidden states of prompts wait for a pass of this many rows. In an answer fewer wait, or the next
// draft would have to read them first and would be measured as expensive.
constexpr std::size_t kWaitingRows = 64, kWaitingInAnswers = 8;
// Unknown hidden states before known ones that are taken as zeros. Behind more of them, a
// prediction layer begins anew.
constexpr std::size_t kMaxGap = kKeyTile;

float* input_of(const Engine& engine) {
  const ValueId input = engine.graph().input;
  return input == kNoValue ? nullptr : StateAccess::of(engine).executor.value(input);
}

}  // namespace

std::size_t draft_rows(std::span<const TokenId> text, const Vocabulary& vocabulary) {
  constexpr std::size_t kRecent = 256, kLeftOut = 16;  // tokens; 1/16 of them is left out
  std::array<std::size_t, kRecent> ids{};
  std::size_t n = 0;
  for (const TokenId token : text.last(std::min(text.size(), kRecent))) {
    const auto id = static_cast<std::size_t>(token);
    if (id < vocabulary.types.size() && vocabulary.types[id] == TokenType::Normal) ids[n++] = id;
  }
  if (n == 0) return kFrequentTokens;
  const auto last = ids.begin() + static_cast<std::ptrdiff_t>(n - 1 - n / kLeftOut);
  std::nth_element(ids.begin(), last, ids.begin() + static_cast<std::ptrdiff_t>(n));
  return std::max(kFrequentTokens, *last + 1);
}

DraftModel::DraftModel(const Model& draft, const Model& model, const EngineOptions& options,
                       GraphPart part)
    : engine_(StateAccess::open(draft, options, part)),
      batch_(engine_),
      n_vocab_(std::min(draft.token_count(), model.token_count())),
      input_(input_of(engine_)),
      n_hidden_(input_ == nullptr ? 0 : engine_.graph().values[engine_.graph().input].width) {
  if (!same_tokens(draft.vocabulary(), model.vocabulary()))
    throw draft.file().error("cannot draft for " + model.path() + ": expected the same vocabulary");
}

DraftModel::DraftModel(const Model& draft, const Model& model, const EngineOptions& options)
    : DraftModel(draft, model, options, GraphPart::Trunk) {}
DraftModel::DraftModel(const Model& model, const EngineOptions& options)
    : DraftModel(model, model, options, GraphPart::Prediction) {}

DraftModel::Text DraftModel::text(std::uint64_t scope, bool shared) {
  Text text{Sequence(engine_, scope, shared), 0, 0, {}, {}};
  text.waiting.reserve((kWaitingRows + kMaxGap + kMaxDraft + 1) * n_hidden_);
  text.last.reserve(n_hidden_);
  return text;
}

// Adds added_ to the batch if it fits. An unknown token, a full context or a full pool end the
// draft, but not the answer.
bool DraftModel::evaluate(Sequence& sequence, std::size_t first_wanted) {
  try {
    batch_.add(sequence, added_, first_wanted);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Adds what is not evaluated of the text and its draft. Returns the number of tokens.
std::size_t DraftModel::add_text(const DraftRequest& request, std::size_t most_read) {
  const std::size_t n_text = request.text.size(), all = n_text + request.draft->size();
  Sequence& sequence = request.of->sequence;
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
  if (!evaluate(sequence, complete ? n - 1 : n)) return 0;
  if (complete) complete_.push_back(&request);
  return n;
}

// Adds up to `most` rows of waiting hidden states whose next tokens are known; the last row gets
// logits if wanted. Returns their number.
std::size_t DraftModel::add_rows(Text& text, std::span<const TokenId> tokens, std::size_t most,
                                 bool with_logits) {
  text.rows = text.sequence.truncate(text.rows);         // without drafts
  const std::size_t first = text.begin + text.rows + 1;  // token of the first row
  if (first >= tokens.size()) return 0;
  const std::size_t all = std::min(text.waiting.size() / n_hidden_, tokens.size() - first),
                    n = std::min({all, most, batch_.capacity_left()});
  if (n == 0) return 0;
  const auto next = tokens.subspan(first, n);
  added_.assign(next.begin(), next.end());
  const auto end = text.waiting.begin() + static_cast<std::ptrdiff_t>(n * n_hidden_);
  std::copy(text.waiting.begin(), end, input_ + batch_.size() * n_hidden_);
  if (!evaluate(text.sequence, with_logits && n == all ? n - 1 : n)) return 0;
  text.waiting.erase(text.waiting.begin(), end);
  text.rows += n;
  return n;
}

// Adds the row of the last draft token, behind the layer's own hidden state.
std::size_t DraftModel::add_row(const DraftRequest& request) {
  if (batch_.capacity_left() == 0) return 0;
  added_.assign(1, request.draft->back());
  std::ranges::copy(request.of->last, input_ + batch_.size() * n_hidden_);
  if (!evaluate(request.of->sequence, 0)) return 0;
  complete_.push_back(&request);
  return 1;
}

std::size_t DraftModel::add(const DraftRequest& request, std::size_t most_read) {
  const std::size_t all = request.text.size() + request.draft->size();
  if (request.draft->size() >= request.most || all >= engine_.options().n_ctx) return 0;
  if (!predicts()) return add_text(request, most_read);
  if (!request.draft->empty()) return add_row(request);
  Text& text = *request.of;
  const std::size_t n = add_rows(text, request.text, most_read, true);
  if (n != 0 && text.begin + text.rows + 1 == request.text.size()) complete_.push_back(&request);
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
    const auto likely = logits.first(rows_);
    complete_[i]->draft->push_back(
        static_cast<TokenId>(std::ranges::max_element(likely) - likely.begin()));
    if (!predicts()) return;
    const std::span<const float> hidden = batch_.hidden(i, i + 1);
    complete_[i]->of->last.assign(hidden.begin(), hidden.end());
  });
  return true;
}

void DraftModel::write(std::span<const DraftRequest> requests, std::size_t most_read,
                       const std::atomic<bool>* stop) {
  const StopOn stop_on(engine_, stop);
  rows_ = 0;
  for (const DraftRequest& request : requests) {
    request.draft->clear();
    rows_ = std::max(rows_, draft_rows(request.text, engine_.model().vocabulary()));
  }
  rows_ = std::min(rows_, n_vocab_);
  StateAccess::of(engine_).executor.limit_logits(rows_);
  while (pass(requests, most_read)) continue;
}

// Makes `first` the position of the next hidden state. Rows behind it are dropped. Rows before it
// may be known from another text, like the trunk's.
void DraftModel::seek(Text& text, std::span<const TokenId> tokens, std::size_t first) {
  text.rows = std::min(text.rows, text.sequence.tokens().size());  // fewer after a failed pass
  const std::size_t rows_end = text.begin + text.rows,
                    end = rows_end + text.waiting.size() / n_hidden_;
  if (first == end) return;
  if (first >= rows_end && first < end) return text.waiting.resize((first - rows_end) * n_hidden_);
  text.waiting.clear();
  if (first >= text.begin && first < rows_end) {
    text.rows = text.sequence.truncate(first - text.begin);
    if (text.begin + text.rows == first) return;
  }
  text.begin = 0;
  text.rows = text.sequence.reuse(tokens.subspan(1, std::min(first, tokens.size() - 1)));
  if (text.rows + kMaxGap < first) {
    text.rows = text.sequence.truncate(0);
    text.begin = first;
  } else {
    text.waiting.resize((first - text.rows) * n_hidden_);
  }
}

void DraftModel::take(Text& text, std::span<const TokenId> tokens, std::size_t first,
                      std::span<const float> hidden) {
  seek(text, tokens, first);
  const std::size_t full = kWaitingRows * n_hidden_;
  while (!hidden.empty()) {
    const std::size_t room = full - std::min(text.waiting.size(), full);
    const auto part = hidden.first(std::min(hidden.size(), std::max(room, n_hidden_)));
    text.waiting.insert(text.waiting.end(), part.begin(), part.end());
    hidden = hidden.subspan(part.size());
    if (text.waiting.size() < (hidden.empty() ? kWaitingInAnswers * n_hidden_ : full)) continue;
    batch_.clear();
    // All but the last row, whose logits begin the next draft.
    if (add_rows(text, tokens, text.waiting.size() / n_hidden_ - 1, false) == 0)
      return text.waiting.clear();  // the pool is full: later rows begin anew
    batch_.forward();
  }
}

}  // namespace cria
