#include "engine/scheduler.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "engine/session/answering.h"
#include "engine/session/common_prefix.h"
#include "engine/session/engine_state.h"

namespace cria {
namespace {

struct Queued {
  Scheduler::Id id;
  AnswerRequest request;
};

std::size_t context(const Engine& engine, const AnswerRequest& request) {
  const std::size_t n_ctx = engine.options().n_ctx;
  return request.n_ctx == 0 ? n_ctx : std::min(n_ctx, request.n_ctx);
}

// An answer that has its sequence.
struct Running {
  Scheduler::Id id;
  AnswerRequest request;
  Answer answer;
  Sequence sequence;
  Answering answering;
  const std::size_t pages;  // that it may need
  bool in_batch = false, failed = false;

  Running(Engine& engine, Scheduler::Id number, AnswerRequest&& wanted, std::size_t most_pages)
      : id(number),
        request(std::move(wanted)),
        answer(engine.model(), {context(engine, request), false}, request.prompt, request.options,
               request.sink),
        sequence(engine, request.scope),
        answering(sequence, answer),
        pages(most_pages) {}
};

}  // namespace

struct Scheduler::State {
  Engine& engine;
  const SchedulerOptions options;
  Batch batch;
  std::deque<Queued> queue;
  std::vector<std::unique_ptr<Running>> running;  // in the order of their arrival
  std::size_t pages = 0;                          // promised to these
  std::size_t turn = 0;                           // whose prompt is read first
  Id last_id = 0;

  State(Engine& e, const SchedulerOptions& o) : engine(e), options(o), batch(e) {}

  void begin_answers();
  bool begin(Queued& next);
  bool plan_step();
  void add_drawing();
  void add_prompts();
  [[nodiscard]] bool waits_for_prefix(Running& reader);
  bool add(Running& answer, std::size_t most);
  void take_logits();
  void end_answers();
  static void end(Running& answer, const std::optional<Error>& error);
};

// False: it must wait.
bool Scheduler::State::begin(Queued& next) {
  const AnswerRequest& wanted = next.request;
  const std::size_t n_ctx = context(engine, wanted),
                    most = static_cast<std::size_t>(wanted.options.max_tokens);
  const std::size_t needed = Engine::pages_of(
      wanted.options.max_tokens < 0 ? n_ctx : std::min(n_ctx, wanted.prompt.size() + std::min(most, n_ctx)));
  if (running.size() == engine.options().sequences) return false;
  if (!running.empty() && pages + needed > engine.pages()) return false;
  const auto on_end = wanted.on_end;
  try {
    running.push_back(std::make_unique<Running>(engine, next.id, std::move(next.request), needed));
    pages += needed;
  } catch (const Error& error) {
    if (on_end) on_end({}, error);
  }
  return true;
}

void Scheduler::State::begin_answers() {
  while (!queue.empty() && begin(queue.front())) queue.pop_front();
}

// An answer that cannot go on fails alone.
bool Scheduler::State::add(Running& r, std::size_t most) {
  try {
    r.answering.add_to(batch, most);
    return r.in_batch = true;
  } catch (const Error& error) {
    end(r, error);
    r.failed = true;
    return false;
  }
}

void Scheduler::State::add_drawing() {
  for (const auto& r : running)
    if (r->answering.decoding() && batch.room() > 0) add(*r, batch.room());
}

// Whether an earlier prompt, still being read, begins with more of the same than is known: it is read once.
bool Scheduler::State::waits_for_prefix(Running& reader) {
  const std::span<const TokenId> text = reader.answer.text();
  const std::size_t known = text.size() - reader.answering.missing();
  for (const auto& other : running) {
    if (other.get() == &reader) return false;
    if (other->answering.decoding() || other->request.scope != reader.request.scope) continue;
    const std::size_t common = common_prefix(other->answer.text(), text.first(text.size() - 1));
    if (common / kKeyTile * kKeyTile > known) return true;
  }
  return false;
}

// In rounds: each step another prompt is the first to be given tokens.
void Scheduler::State::add_prompts() {
  std::size_t left = batch.size() == 0 ? batch.room() : std::min(batch.room(), options.prompt_tokens);
  const std::size_t n = running.size(), first = turn++ % n;
  for (std::size_t i = 0; i < n && left > 0; ++i) {
    Running& r = *running[(first + i) % n];
    if (r.answering.decoding() || r.failed || waits_for_prefix(r)) continue;
    const std::size_t before = batch.size();
    if (add(r, left)) left -= batch.size() - before;
  }
}

bool Scheduler::State::plan_step() {
  batch.clear();
  for (const auto& r : running) {
    r->in_batch = false;
    const std::atomic<bool>* const flag = r->request.options.interrupt;
    if (flag != nullptr && *flag) r->answer.end(StopReason::Interrupted);
  }
  end_answers();
  begin_answers();
  if (running.empty()) return false;
  add_drawing();
  add_prompts();
  return batch.size() != 0;
}

void Scheduler::State::take_logits() {
  std::size_t rows = 0;
  for (const auto& r : running) {
    if (!r->in_batch) continue;
    r->answering.passed();
    rows += r->answering.rows();
  }
  for_each_row(engine, batch, rows, [&](std::size_t row, std::span<const float> logits) {
    for (const auto& r : running) {
      if (!r->in_batch || r->failed || row - r->answering.first_row() >= r->answering.rows()) continue;
      r->failed = !all_finite(logits);
      if (!r->failed) r->answering.take(row, logits);
    }
  });
  for (const auto& r : running)
    if (r->failed && !r->answer.ended()) end(*r, engine.not_finite(r->sequence));
}

void Scheduler::State::end(Running& r, const std::optional<Error>& error) {
  if (!r.answer.ended()) r.answer.end(StopReason::Interrupted);
  r.answering.finish();
  if (r.request.on_end) std::exchange(r.request.on_end, {})(r.answer.result(), error);
}

void Scheduler::State::end_answers() {
  std::erase_if(running, [&](const std::unique_ptr<Running>& r) {
    if (!r->answer.ended() && r->answering.decoding() && r->answer.complete())
      r->answer.end(StopReason::Length);
    if (!r->answer.ended()) return false;
    if (!r->failed) end(*r, std::nullopt);
    pages -= r->pages;
    return true;
  });
}

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options)
    : state_(std::make_unique<State>(engine, options)) {}
Scheduler::~Scheduler() = default;

Scheduler::Id Scheduler::add(AnswerRequest request) {
  state_->queue.push_back({++state_->last_id, std::move(request)});
  return state_->last_id;
}

void Scheduler::cancel(Id id) {
  for (const auto& r : state_->running)
    if (r->id == id && !r->answer.ended()) r->answer.end(StopReason::Interrupted);
  const auto queued = std::ranges::find(state_->queue, id, &Queued::id);
  if (queued == state_->queue.end()) return;
  GenerateResult result;
  result.reason = StopReason::Interrupted;
  const auto on_end = std::move(queued->request.on_end);
  state_->queue.erase(queued);
  if (on_end) on_end(std::move(result), std::nullopt);
}

bool Scheduler::step(const std::atomic<bool>* stop) {
  if (!state_->plan_step()) return !state_->queue.empty() || !state_->running.empty();
  state_->engine.state().executor.stop_on(stop);
  try {
    state_->batch.forward();
  } catch (const EvaluationStopped&) {
    state_->engine.state().executor.stop_on(nullptr);
    return true;
  }
  state_->engine.state().executor.stop_on(nullptr);
  state_->take_logits();
  state_->end_answers();
  return true;
}

std::size_t Scheduler::active() const noexcept { return state_->running.size(); }
std::size_t Scheduler::waiting() const noexcept { return state_->queue.size(); }

}  // namespace cria
