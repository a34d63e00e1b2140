#include "engine/session.h"

#include <utility>

#include "engine/session/logit_rows.h"
#include "engine/session/state.h"

namespace cria {
namespace {

// An engine of one sequence. It keeps no prefixes: what a session has truncated is gone.
EngineOptions engine_options(const SessionOptions& o) {
  EngineOptions options;
  options.n_ctx = o.n_ctx;
  options.rope_ctx = o.rope_ctx;
  options.n_batch = o.n_batch;
  options.threads = o.threads;
  options.threads_prefill = o.threads_prefill;
  options.kv_type = o.kv_type;
  options.kernels = o.kernels;
  options.prefix_cache = false;
  return options;
}

SessionOptions filled_in(SessionOptions options, const EngineOptions& engine) {
  options.n_ctx = engine.n_ctx;
  options.rope_ctx = engine.rope_ctx;
  options.n_batch = engine.n_batch;
  options.threads = engine.threads;
  options.threads_prefill = engine.threads_prefill;
  options.kernels = engine.kernels;
  return options;
}

}  // namespace

SessionMemory session_memory(const Model& model, const SessionOptions& options) {
  const EngineOptions engine = engine_options(options);
  SessionMemory memory = engine_memory(model, engine);
  if (options.draft == nullptr) return memory;
  EngineOptions same = engine;
  same.n_ctx = EnginePlan::of(model, engine).options.n_ctx;
  const EngineMemory draft = draft_memory(*options.draft, same);
  memory.file += draft.file;
  memory.kv += draft.kv;
  memory.work += draft.work;
  return memory;
}

Session::State::State(const Model& model, const SessionOptions& wanted)
    : engine(model, engine_options(wanted)),
      options(filled_in(wanted, engine.options())),
      sequence(engine),
      batch(engine) {
  if (!wanted.draft) return;
  draft_model.emplace(*wanted.draft, model, engine.state().plan.beside());
  draft_sequence.emplace(draft_model->sequence());
}

Session::Session(const Model& model, const SessionOptions& options)
    : state_(std::make_unique<State>(model, options)) {}
Session::~Session() = default;

void Session::State::forward(std::span<const TokenId> added, std::size_t wanted) {
  batch.clear();
  batch.add(sequence, added, wanted);
  batch.forward();
  first_wanted = wanted;
}

void Session::State::check_finite(std::span<const float> logits, std::size_t token) {
  if (!all_finite(logits))
    throw engine.not_finite(sequence, sequence.tokens().size() - batch.size() + token);
}

std::span<const float> Session::State::logits(std::size_t begin, std::size_t end) {
  const std::span<const float> rows = batch.logits(begin - first_wanted, end - first_wanted);
  check_finite(rows, begin);
  return rows;
}

template <class OnLogits>
void Session::State::eval(std::span<const TokenId> added, std::size_t wanted,
                          OnLogits&& on_logits) {
  sequence.state().check(added);
  const std::size_t before = sequence.tokens().size();
  try {
    eval_batches(added, wanted, on_logits);
  } catch (...) {  // in a later batch, or by on_logits
    sequence.truncate(std::min(before, sequence.tokens().size()));
    throw;
  }
}

template <class OnLogits>
void Session::State::eval_batches(std::span<const TokenId> added, std::size_t wanted,
                                  OnLogits&& on_logits) {
  const std::size_t n_batch = options.n_batch;
  for (std::size_t done = 0; done < added.size(); done += n_batch) {
    const std::size_t n = std::min(n_batch, added.size() - done);
    forward(added.subspan(done, n), wanted <= done ? 0 : std::min(n, wanted - done));
    for_each_row(engine, batch, 0, n - first_wanted,
                 [&](std::size_t row, std::span<const float> logits) {
                   check_finite(logits, first_wanted + row);
                   on_logits(done + first_wanted + row, logits);
                 });
  }
}

std::span<const float> Session::eval(std::span<const TokenId> tokens) {
  std::span<const float> last;
  if (tokens.empty()) return last;
  state_->eval(tokens, tokens.size() - 1,
               [&last](std::size_t, std::span<const float> logits) { last = logits; });
  return last;
}

void Session::eval_all(std::span<const TokenId> tokens,
                       const std::function<void(std::size_t, std::span<const float>)>& sink) {
  state_->eval(tokens, sink ? 0 : tokens.size(), sink);
}

void Session::forward(std::span<const TokenId> tokens, std::size_t first_wanted) {
  state_->forward(tokens, first_wanted);
}

std::span<const float> Session::logits(std::size_t begin, std::size_t end) {
  return state_->logits(begin, end);
}

std::size_t Session::logit_rows() const noexcept { return state_->engine.logit_rows(); }

void Session::parallel(std::size_t n, const std::function<void(std::size_t)>& f) {
  state_->engine.parallel(n, f);
}

std::span<const TokenId> Session::tokens() const noexcept { return state_->sequence.tokens(); }
std::size_t Session::truncate(std::size_t n) { return state_->sequence.truncate(n); }

const Model& Session::model() const noexcept { return state_->model(); }
const SessionOptions& Session::options() const noexcept { return state_->options; }
std::size_t Session::memory_bytes() const noexcept { return state_->engine.memory_bytes(); }
const Graph& Session::graph() const noexcept { return state_->engine.graph(); }

ExpertRows Session::expert_rows(std::size_t n_experts) const {
  return state_->engine.state().executor.expert_rows(n_experts);
}

void Session::profile(bool on) { state_->engine.profile(on); }
std::vector<NodeTime> Session::profile() const { return state_->engine.profile(); }
void Session::observe(
    std::function<void(const Node&, std::span<const float>, std::size_t)> observer) {
  state_->engine.observe(std::move(observer));
}

}  // namespace cria
