#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <new>
#include <utility>

#include "engine/session/answering.h"
#include "engine/session/common_prefix.h"
#include "engine/session/draft_choice.h"
#include "engine/session/draft_control.h"
#include "engine/session/draft_model.h"
#include "engine/session/engine_state.h"
#include "engine/session/logit_rows.h"
#include "engine/session/pooling.h"
#include "engine/session/stop_on.h"
#include "kernels/simd/float_mode.h"

namespace cria {
namespace {

using Clock = std::chrono::steady_clock;

struct Queued {
  Scheduler::Id id;
  AnswerRequest request;
  Clock::time_point since;
};

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

std::size_t context(const Engine& engine, const AnswerRequest& request) {
  const std::size_t n_ctx = engine.options().n_ctx;
  return request.n_ctx == 0 ? n_ctx : std::min(n_ctx, request.n_ctx);
}

// What was thrown, as an answer's end tells it.
std::optional<Error> as_error(const std::exception_ptr& thrown) {
  if (!thrown) return std::nullopt;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return Error("out of memory");
  } catch (const std::exception& error) {
    return Error(error.what());
  }
}

// That prompt and answer may become. Behind a prompt whose embedding is wanted comes nothing.
std::size_t most_tokens(const Engine& engine, const AnswerRequest& request) {
  const std::size_t n_ctx = context(engine, request);
  if (request.embedding) return std::min(n_ctx, request.prompt.size());
  if (request.options.max_tokens < 0) return n_ctx;
  const auto most = static_cast<std::size_t>(request.options.max_tokens);
  return std::min(n_ctx, request.prompt.size() + std::min(most, n_ctx));
}

// An answer that has its sequence.
struct Running {
  Scheduler::Id id;
  AnswerRequest request;
  const Clock::time_point since;
  Answer answer;
  Sequence sequence;
  Answering answering;
  std::optional<PooledStates> pooled;
  std::optional<Sequence> draft_sequence;  // of the draft model
  std::vector<TokenId> draft;              // for this step
  std::size_t agree = 0;                   // what speaks for it
  bool was_decoding = false;               // before this step
  bool failed = false, over = false;       // over: its end has been told
  std::exception_ptr error;                // that ends it

  Running(Engine& engine, Queued&& queued, std::size_t pages)
      : id(queued.id),
        request(std::move(queued.request)),
        since(queued.since),
        answer(engine.model(), {context(engine, request), false}, request.prompt, request.options,
               request.sink),
        sequence(engine, request.scope, request.cache_prompt),
        answering(sequence, answer, request.embedding == Pooling::Mean) {
    sequence.state().reserved_pages = pages;
    draft.reserve(kMaxDraft);
    if (request.embedding) pooled.emplace(*request.embedding, engine.model().config().n_embd);
  }
  [[nodiscard]] std::size_t end_row() const { return answering.first_row() + answering.rows(); }
};

}  // namespace

struct Scheduler::State {
  Engine& engine;
  const SchedulerOptions options;
  Batch batch;
  std::optional<DraftModel> draft_model;  // before those who have sequences of it
  std::deque<Queued> queue;
  std::vector<std::unique_ptr<Running>> running;  // in the order of their arrival
  std::vector<Running*> in_batch;                 // in the order of their rows
  std::vector<Running*> readers;                  // whose prompts are read in this step
  std::size_t to_read = 0;                        // tokens of these; of one that has not begun all
  std::size_t writing = 0;                        // answers that are being written
  std::vector<DraftModel::DraftRequest> guesses;
  DraftControl drafts;
  std::size_t turn = 0;  // whose prompt is read first
  Id last_id = 0;

  State(Engine& e, const SchedulerOptions& o) : engine(e), options(o), batch(e) {
    if (o.draft) draft_model.emplace(*o.draft, e.model(), e.state().plan.beside());
  }

  void begin_answers();
  void begin(Queued&& next, std::size_t pages);
  void drop_ended();
  bool plan_step(const std::atomic<bool>* stop);
  void find_readers();
  void guess(const std::atomic<bool>* stop);
  void guess(Running& r, std::size_t most, DraftControl::Pass& pass);
  [[nodiscard]] std::size_t readers_share() const;
  void add_drawing();
  void add_prompts();
  void count_drafts(double seconds);
  [[nodiscard]] bool waits_for_prefix(Running& reader);
  bool add(Running& answer, std::size_t most, std::span<const TokenId> draft = {});
  void take_rows();
  void take_logits(std::span<Running* const> of);
  void take_hidden(Running& r);
  void end_answers();
  static void end(Running& answer, std::exception_ptr error);
};

void Scheduler::State::begin(Queued&& next, std::size_t pages) {
  const auto on_error = next.request.on_error;
  const auto on_end = next.request.on_end;
  try {
    running.push_back(std::make_unique<Running>(engine, std::move(next), pages));
  } catch (const std::exception&) {
    if (on_error) on_error(std::current_exception());
    if (on_end) on_end({}, as_error(std::current_exception()));
    return;
  }
  const Running& r = *running.back();
  if (r.request.on_begin) r.request.on_begin(seconds_since(r.since));
}

// Each leaves the queue before anything is called that may change it.
void Scheduler::State::begin_answers() {
  while (!queue.empty()) {
    const std::size_t pages = Engine::pages_of(most_tokens(engine, queue.front().request));
    if (engine.state().must_wait(pages)) return;
    Queued next = std::move(queue.front());
    queue.pop_front();
    begin(std::move(next), pages);
  }
}

// An answer that cannot go on fails alone.
bool Scheduler::State::add(Running& r, std::size_t most, std::span<const TokenId> draft) {
  try {
    r.was_decoding = r.answering.decoding();
    r.answering.add_to(batch, most, draft);
    in_batch.push_back(&r);
    return true;
  } catch (const Error&) {
    end(r, std::current_exception());
    r.failed = true;
    return false;
  }
}

// Tokens of an empty batch that answers leave to prompts though they could fill it: a quarter; of
// one token every other round. Where it has room for both, none waits.
std::size_t Scheduler::State::readers_share() const {
  const std::size_t room = batch.room();
  if (writing < room) return 0;
  const std::size_t share =
      room == 1 ? turn / running.size() % 2 : std::max<std::size_t>(1, room / 4);
  return std::min({share, options.prompt_tokens, to_read});
}

// In rounds: each step another answer, and another prompt, is the first.
void Scheduler::State::add_drawing() {
  const std::size_t n = running.size(), left = readers_share();
  for (std::size_t i = 0; i < n && batch.room() > left; ++i) {
    Running& r = *running[(turn + i) % n];
    if (r.answering.decoding()) add(r, 1, r.draft);
  }
}

// Whether an earlier prompt, still being read, begins with so much more of the same than is known,
// or with all of it: that is read once, where it can be found then.
bool Scheduler::State::waits_for_prefix(Running& reader) {
  constexpr std::size_t kWorthWaiting = 16;  // tokens
  if (!engine.options().prefix_cache || !reader.request.cache_prompt) return false;
  if (reader.answering.begun() || reader.answering.reads_all()) return false;
  const std::span<const TokenId> text = reader.answer.text(), wanted = text.first(text.size() - 1);
  std::optional<std::size_t> known;
  for (const auto& other : running) {
    if (other.get() == &reader) return false;
    if (other->answering.decoding() || other->request.scope != reader.request.scope ||
        !other->request.cache_prompt)
      continue;
    const std::size_t common = common_prefix(other->answer.text(), wanted);
    if (common <= other->sequence.tokens().size()) continue;
    if (common < kWorthWaiting && common < wanted.size()) continue;
    if (!known) known = reader.sequence.state().find(wanted).n;
    if (common >= *known + kWorthWaiting || (common == wanted.size() && common > *known))
      return true;
  }
  return false;
}

void Scheduler::State::find_readers() {
  readers.clear();
  to_read = writing = 0;
  const std::size_t n = running.size();
  for (std::size_t i = 0; i < n; ++i) {
    Running& r = *running[(turn + i) % n];
    if (r.answering.decoding()) ++writing;
    if (r.answering.decoding() || waits_for_prefix(r)) continue;
    readers.push_back(&r);
    to_read += r.answering.begun() ? r.answering.missing() : r.answer.text().size();
  }
}

void Scheduler::State::add_prompts() {
  std::size_t left =
      batch.size() == 0 ? batch.room() : std::min(batch.room(), options.prompt_tokens);
  for (Running* const r : readers) {
    const std::size_t before = batch.size();
    if (left > 0 && add(*r, left)) left -= batch.size() - before;
  }
}

// Drafts for the answers that are being written, of what prompts leave: nobody waits for them.
void Scheduler::State::guess(const std::atomic<bool>* stop) {
  const std::size_t n = running.size();
  for (const auto& r : running) {
    r->draft.clear();
    r->agree = 0;
  }
  const std::size_t all =
      std::min(options.prompt_tokens, batch.room() - std::min(batch.room(), writing));
  std::size_t left = all - std::min(all, to_read);
  const std::size_t certain = writing + all - left;
  DraftControl::Pass pass{certain, static_cast<double>(n), certain};  // those who read wait as well
  guesses.clear();
  for (std::size_t i = 0; i < n; ++i) {
    Running& r = *running[(turn + i) % n];
    const std::size_t most =
        std::min({left, kMaxDraft, std::max<std::size_t>(1, r.answer.tokens_left()) - 1});
    if (!r.answering.decoding()) continue;
    const std::size_t before = pass.tokens;
    guess(r, most, pass);
    left -= pass.tokens - before;
  }
  if (!guesses.empty()) draft_model->guess(guesses, options.prompt_tokens, stop);
}

void Scheduler::State::guess(Running& r, std::size_t most, DraftControl::Pass& pass) {
  const DraftChoice choice =
      choose_draft(r.answer, draft_model.has_value(), most, drafts, pass, r.draft);
  r.agree = choice.agree;
  if (choice.of_model == 0) return;
  if (!r.draft_sequence)
    r.draft_sequence.emplace(draft_model->sequence(r.request.scope, r.request.cache_prompt));
  guesses.push_back({&*r.draft_sequence, r.answer.text(), choice.of_model, &r.draft});
}

// After the pass, of the whole step.
void Scheduler::State::count_drafts(double seconds) {
  std::size_t writers = 0, drafted = 0, kept = 0;
  for (Running* const r : in_batch) {
    if (!r->was_decoding) continue;
    ++writers;
    r->answer.count_drafts(r->draft.size(), r->answering.kept());
    drafts.guessed(r->agree, r->draft.size(), r->answering.kept());
    drafted += r->draft.size();
    kept += r->answering.kept();
  }
  if (writers == 0) return drafts.spent(seconds);
  drafts.passed(batch.size() - drafted, writers, drafted, kept, seconds);
}

void Scheduler::State::drop_ended() {
  for (const auto& r : running) {
    const std::atomic<bool>* const flag = r->request.options.interrupt;
    if (flag != nullptr && *flag) r->answer.end(StopReason::Interrupted);
  }
  end_answers();
}

bool Scheduler::State::plan_step(const std::atomic<bool>* stop) {
  batch.clear();
  in_batch.clear();
  drop_ended();
  begin_answers();
  if (running.empty()) return false;
  ++turn;
  find_readers();
  guess(stop);
  add_drawing();
  add_prompts();
  return batch.size() != 0;
}

void Scheduler::State::take_rows() {
  for (Running* const r : in_batch) r->answering.passed();
  const std::span<Running* const> all = in_batch;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t n = 0;
    while (i + n < all.size() && !all[i + n]->pooled) ++n;
    if (n == 0) {
      take_hidden(*all[i++]);
    } else {
      take_logits(all.subspan(i, n));
      i += n;
    }
  }
  for (Running* const r : in_batch)
    if (r->failed && !r->answer.ended()) {
      r->error =
          std::make_exception_ptr(engine.not_finite(r->sequence, r->answering.next_position()));
      r->answer.end(StopReason::Interrupted);
    }
}

// Of neighbours: the product of their rows is computed at once.
void Scheduler::State::take_logits(std::span<Running* const> of) {
  for_each_row(
      engine, batch, of.front()->answering.first_row(), of.back()->end_row(),
      [&of](std::size_t row, std::span<const float> logits) {
        while (row >= of.front()->end_row()) of = of.subspan(1);
        Running& r = *of.front();
        if (r.failed || r.answer.ended() || !r.answering.looks_at(row)) return;
        r.failed = !all_finite(logits);
        if (r.failed) return;
        try {
          r.answering.take(row, logits);
        } catch (const std::exception&) {  // its constraint costs too much, say, or its sink's
          r.failed = true;
          r.error = std::current_exception();
          if (!r.answer.ended()) r.answer.end(StopReason::Interrupted);
          return;
        }
        if (r.answer.drawn() != 0 && r.request.on_first_token)
          std::exchange(r.request.on_first_token, {})(seconds_since(r.since));
      });
}

void Scheduler::State::take_hidden(Running& r) {
  const std::span<const float> rows = batch.hidden(r.answering.first_row(), r.end_row());
  r.failed = !all_finite(rows);
  if (r.failed || r.answer.ended()) return;  // by a callback of another answer of this pass
  r.pooled->add(rows);
  if (r.answering.decoding()) r.answer.end(StopReason::Length);
}

void Scheduler::State::end(Running& r, std::exception_ptr error) {
  if (!r.answer.ended()) r.answer.end(StopReason::Interrupted);
  r.answering.finish();
  GenerateResult result;
  try {
    result = r.answer.result();
  } catch (const std::exception&) {  // by the sink, which gets what was held back
    if (!error) error = std::current_exception();
  }
  if (r.pooled && result.reason == StopReason::Length) result.embedding = r.pooled->unit();
  r.over = true;
  if (error && r.request.on_error) r.request.on_error(error);
  if (r.request.on_end) r.request.on_end(std::move(result), as_error(error));
}

// All are there while they are told their end: what is called may throw, or cancel others.
void Scheduler::State::end_answers() {
  for (const auto& r : running)
    if (r->answer.ended() && !r->over) end(*r, std::exchange(r->error, nullptr));
  std::erase_if(running, [](const auto& r) { return r->over; });
}

AnswerRequest choice(const AnswerRequest& request, std::uint64_t index) {
  AnswerRequest one = request;
  if (!one.options.sampler.seed) return one;
  const std::uint64_t seed = *one.options.sampler.seed;
  one.options.sampler.seed = seed + index;
  one.options.call_key ^= seed ^ (seed + index);  // as chat_request() makes it
  return one;
}

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options)
    : state_(std::make_unique<State>(engine, options)) {}
Scheduler::~Scheduler() = default;

Scheduler::Id Scheduler::add(AnswerRequest request) {
  state_->queue.push_back({++state_->last_id, std::move(request), Clock::now()});
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

void Scheduler::clear() noexcept {
  state_->batch.clear();
  state_->in_batch.clear();
  state_->readers.clear();
  state_->guesses.clear();
  state_->running.clear();
  state_->queue.clear();
}

void Scheduler::drop_ended() { state_->drop_ended(); }

bool Scheduler::step(const std::atomic<bool>* stop) {
  const auto start = Clock::now();
  const DefaultFloatMode mode;  // also of what is drawn between evaluations
  const StopOn stop_on(state_->engine, stop);
  try {
    if (!state_->plan_step(stop)) {
      state_->end_answers();  // those that could not be added let go of their sequences
      return !state_->queue.empty() || !state_->running.empty();
    }
    state_->batch.forward();
  } catch (const EvaluationStopped&) {
    return true;
  }
  state_->take_rows();
  state_->count_drafts(seconds_since(start));
  state_->end_answers();
  return true;
}

std::size_t Scheduler::active() const noexcept { return state_->running.size(); }
std::size_t Scheduler::waiting() const noexcept { return state_->queue.size(); }

std::size_t Scheduler::positions() const noexcept {
  std::size_t n = 0;
  for (const auto& r : state_->running) n += r->sequence.tokens().size();
  return n;
}

std::vector<Scheduler::Progress> Scheduler::progress() const {
  std::vector<Progress> all;
  for (const auto& r : state_->running) {
    const std::size_t text = r->answer.text().size(), known = r->sequence.tokens().size();
    all.push_back({r->answering.decoding() ? 0 : text - std::min(text, known), r->answer.drawn(),
                   r->pooled ? 0 : r->answer.tokens_left()});
  }
  return all;
}

}  // namespace cria
