// Session::generate: an answer on a sequence of its own.
#include <chrono>

#include "engine/session/answering.h"
#include "engine/session/common_prefix.h"
#include "engine/session/draft_choice.h"
#include "engine/session/logit_rows.h"
#include "engine/session/state.h"
#include "engine/session/stop_on.h"
#include "kernels/simd/float_mode.h"

namespace cria {
namespace {

// The passes of one answer.
class Passes {
 public:
  Passes(Session::State& state, Answer& answer)
      : state_(state), answer_(answer), answering_(state.sequence, answer) {
    draft_.reserve(kMaxDraft);
  }

  /// Until the answer has ended.
  void run() {
    try {
      while (!answer_.ended()) step();
    } catch (const EvaluationStopped&) {
      answer_.end(StopReason::Interrupted);
    }
    answering_.finish();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void step() {
    const auto start = Clock::now();
    draft_.clear();
    const bool decoding =
        answering_.decoding() && answering_.missing() == 1;  // more: after a shift
    const std::size_t agree = decoding ? guess() : 0;
    pass();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (!decoding) {
      state_.drafts.spent(seconds);
    } else {
      answer_.count_drafts(draft_.size(), answering_.kept());
      state_.drafts.passed(agree, draft_.size(), answering_.kept(), seconds);
    }
  }

  // Fills the draft. Returns how much speaks for it.
  std::size_t guess() {
    const std::size_t left = std::min(answer_.tokens_left(), std::size_t{state_.options.n_batch});
    const std::size_t most = std::min(kMaxDraft, std::max<std::size_t>(1, left) - 1);
    DraftControl::Pass alone;
    const DraftChoice choice =
        choose_draft(answer_, state_.draft_model.has_value(), most, state_.drafts, alone, draft_);
    if (choice.of_model != 0) {
      const DraftModel::DraftRequest guess{&*state_.draft_sequence, answer_.text(), choice.of_model,
                                           &draft_};
      constexpr std::size_t kMaxRead = 128;  // of a long prompt: the answer goes on meanwhile
      state_.draft_model->guess({&guess, 1}, kMaxRead, answer_.options().interrupt);
    }
    return choice.agree;
  }

  void pass() {
    state_.batch.clear();
    answering_.add_to(state_.batch, state_.options.n_batch, draft_);
    state_.batch.forward();
    answering_.passed();
    for_each_row(state_.engine, state_.batch, 0, answering_.rows(),
                 [&](std::size_t row, std::span<const float> logits) {
                   if (!answering_.looks_at(row)) return;
                   if (!all_finite(logits))
                     throw state_.engine.not_finite(state_.sequence, answering_.next_position());
                   answering_.take(row, logits);
                 });
  }

  Session::State& state_;
  Answer& answer_;
  Answering answering_;
  std::vector<TokenId> draft_;
};

}  // namespace

GenerateResult Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                 const TextSink& sink) {
  const DefaultFloatMode mode;  // also of what is drawn between evaluations
  Answer answer(model(), {state_->options.n_ctx, state_->options.context_shift}, prompt, options,
                sink);
  Passes passes(*state_, answer);
  const StopOn stop_on(state_->engine, options.interrupt);
  const std::vector<TokenId> before(tokens().begin(), tokens().end());
  try {
    passes.run();
    return answer.result();  // the sink gets what was held back
  } catch (...) {            // drafts that were not drawn may be among what was evaluated
    truncate(common_prefix(tokens(), before));
    throw;
  }
}

}  // namespace cria
