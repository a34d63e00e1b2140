// Session::generate: an answer on a sequence of its own.
#include "engine/session/answering.h"
#include "engine/session/state.h"

namespace cria {
namespace {

// While it lives, the flag stops evaluations.
class StopOn {
 public:
  StopOn(Executor& executor, const std::atomic<bool>* flag) : executor_(executor) { executor.stop_on(flag); }
  ~StopOn() { executor_.stop_on(nullptr); }
  StopOn(const StopOn&) = delete;
  StopOn& operator=(const StopOn&) = delete;

 private:
  Executor& executor_;
};

void pass(Session::State& state, Answering& answering) {
  state.batch.clear();
  answering.add_to(state.batch, state.options.n_batch);
  state.batch.forward();
  answering.passed();
  for_each_row(state.engine, state.batch, answering.rows(),
               [&](std::size_t row, std::span<const float> logits) {
                 if (!all_finite(logits)) throw state.engine.not_finite(state.sequence);
                 answering.take(row, logits);
               });
}

}  // namespace

GenerateResult Session::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                 const TextSink& sink) {
  Answer answer(model(), {state_->options.n_ctx, state_->options.context_shift}, prompt, options, sink);
  Answering answering(state_->sequence, answer);
  const StopOn stop_on(state_->engine.state().executor, options.interrupt);
  try {
    while (!answer.ended()) pass(*state_, answering);
  } catch (const EvaluationStopped&) {
    answer.end(StopReason::Interrupted);
  }
  answering.finish();
  return answer.result();
}

}  // namespace cria
