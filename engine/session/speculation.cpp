#include "engine/session/speculation.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "engine/session/answering.h"
#include "engine/session/common_prefix.h"
#include "engine/session/fingerprint.h"

namespace cria {
namespace {

struct Occurrence {
  std::size_t agree = 0, end = 0;  // tokens; the place behind them
};

// Where the end of `text` occurs in `in` with something behind it.
Occurrence longest_occurrence(std::span<const TokenId> text, std::span<const TokenId> in) {
  constexpr std::size_t kEnough = 32;  // longer agreement says no more
  Occurrence best;
  for (std::size_t end = in.size(); end-- > 1;) {
    if (in[end - 1] != text.back()) continue;
    const std::size_t most = std::min({end, text.size(), kEnough});
    std::size_t agree = 1;
    while (agree < most && in[end - 1 - agree] == text[text.size() - 1 - agree]) ++agree;
    if (agree > best.agree) best = {agree, end};
    if (agree == kEnough) break;
  }
  return best;
}

}  // namespace

std::size_t look_up_draft(std::span<const TokenId> text, std::span<const TokenId> expected, std::size_t most,
                          std::vector<TokenId>& draft) {
  constexpr std::size_t kLeast = 2;
  draft.clear();
  if (!expected.empty()) {
    if (const Occurrence found = longest_occurrence(text, expected); found.agree >= kLeast) {
      const auto rest = expected.subspan(found.end, std::min(most, expected.size() - found.end));
      draft.assign(rest.begin(), rest.end());
      return found.agree;
    }
  }
  const Occurrence found = longest_occurrence(text, text);
  if (found.agree < kLeast) return 0;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t at = found.end + i;
    draft.push_back(at < text.size() ? text[at] : draft[at - text.size()]);
  }
  return found.agree;
}

namespace {

EngineOptions draft_options(EngineOptions options) {
  options.kept_bytes = 0;  // its positions are among the engine's
  return options;
}

}  // namespace

EngineMemory draft_memory(const Model& draft, const EngineOptions& options) {
  return engine_memory(draft, draft_options(options));
}

DraftModel::DraftModel(const Model& draft, const Model& model, const EngineOptions& options)
    : owner_(draft.shared_from_this()), engine_(draft, draft_options(options)), batch_(engine_) {
  if (fingerprint(draft.vocabulary()) != fingerprint(model.vocabulary()))
    throw draft.file().error("cannot draft for " + model.path() + ": expected the same vocabulary");
}

// What is not evaluated of the text and its draft, as far as there is room. Returns how many tokens that are.
std::size_t DraftModel::add(const Guess& guess, std::size_t most_read) {
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
  batch_.add(sequence, added_, complete ? n - 1 : n);
  if (complete) complete_.push_back(&guess);
  return n;
}

// A token more for each. False: there was nothing to do.
bool DraftModel::pass(std::span<const Guess> guesses, std::size_t& most_read) {
  batch_.clear();
  complete_.clear();
  for (const Guess& guess : guesses) {
    const bool reads = guess.draft->empty();
    const std::size_t n = add(guess, reads ? most_read : 1);
    if (reads) most_read -= n;
  }
  if (batch_.size() == 0) return false;
  batch_.forward();
  for_each_row(engine_, batch_, 0, complete_.size(), [this](std::size_t i, std::span<const float> logits) {
    complete_[i]->draft->push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
  });
  return true;
}

void DraftModel::guess(std::span<const Guess> guesses, std::size_t most_read) {
  for (const Guess& guess : guesses) guess.draft->clear();
  while (pass(guesses, most_read)) continue;
}

// Between sizes that were measured, in proportion; beyond them, that a token costs little: whoever tries learns.
double DraftControl::cost(std::size_t tokens) const {
  if (costs_[tokens] > 0) return costs_[tokens];
  std::size_t below = tokens, above = tokens;
  while (below > 0 && costs_[below] == 0) --below;
  while (above + 1 < costs_.size() && costs_[above] == 0) ++above;
  if (costs_[above] == 0) return costs_[below] * (1 + 0.1 * static_cast<double>(tokens - below));
  if (below == 0) return costs_[above];
  const double share = static_cast<double>(tokens - below) / static_cast<double>(above - below);
  return costs_[below] + share * (costs_[above] - costs_[below]);
}

std::size_t DraftControl::length(std::size_t agree, Pass pass, double* gained) const {
  if (agree == 0 || pass.tokens + kMostDraft >= costs_.size()) return 0;
  const double base = cost(pass.tokens);
  if (base == 0 || (pass.tokens == 1 && costs_[1] == 0)) return 0;
  const Rate& rate = rates_[bucket(agree)];
  const double right = rate.right / rate.of;
  std::size_t best = 0;
  double best_speed = pass.gained / base, tokens = pass.gained, chance = 1;
  for (std::size_t n = 1; n <= kMostDraft; ++n) {
    chance *= right;
    tokens += chance;
    const double seconds = cost(pass.tokens + n);
    if (tokens / seconds <= best_speed || seconds - base > purse()) continue;
    best = n;
    best_speed = tokens / seconds;
    if (gained != nullptr) *gained = tokens;
  }
  return best;
}

// What drafts have cost, and that each token kept is a part of a pass that is not needed.
void DraftControl::passed(std::size_t certain, std::size_t answers, std::size_t drafted, std::size_t kept,
                          double seconds) {
  elapsed_ += seconds;
  if (certain + drafted >= costs_.size()) return;
  double& known = costs_[certain + drafted];
  known = known == 0 ? seconds : known + (seconds - known) / 8;
  if (drafted == 0) return;
  const double without = cost(certain);
  balance_ += static_cast<double>(kept) * without / static_cast<double>(answers) - (seconds - without);
}

void DraftControl::guessed(std::size_t agree, std::size_t drafted, std::size_t kept) {
  if (drafted == 0) return;
  Rate& rate = rates_[bucket(agree)];
  constexpr double kMemory = 64;  // guesses
  rate.right += static_cast<double>(kept);
  rate.of += static_cast<double>(std::min(drafted, kept + 1));
  if (rate.of > kMemory) rate = {rate.right * kMemory / rate.of, kMemory};
}

}  // namespace cria
