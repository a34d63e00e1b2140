#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <new>
#include <numeric>
#include <utility>

#include "engine/session/draft_control.h"
#include "engine/session/engine_state.h"
#include "engine/session/pooled_states.h"
#include "engine/session/sequence_decoder.h"
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

bool causal(const Engine& engine) { return engine.graph().causal; }

// True if the model's own prediction layer may draft for the answer.
bool drafts_itself(const Engine& engine, const AnswerRequest& request) {
  const std::optional<DraftModel>& model = StateAccess::of(engine).draft_model;
  const Speculate mode = request.options.speculate;
  return model && model->predicts() && !request.embedding &&
         (mode == Speculate::Auto || mode == Speculate::Layers);
}

// Converts an exception for AnswerRequest::on_end.
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

// Max tokens of prompt and answer.
std::size_t most_tokens(const Engine& engine, const AnswerRequest& request) {
  const std::size_t n_ctx = context(engine, request);
  if (request.embedding) return std::min(n_ctx, request.prompt.size());
  if (request.options.max_tokens < 0) return n_ctx;
  const auto most = static_cast<std::size_t>(request.options.max_tokens);
  return std::min(n_ctx, request.prompt.size() + std::min(most, n_ctx));
}

// An answer in prefill or decode.
struct Running {
  Scheduler::Id id;
  AnswerRequest request;
  const Clock::time_point since;
  Answer answer;
  std::optional<Sequence> own;  // unless the request has a sequence
  Sequence& sequence;
  SequenceDecoder decoder;
  std::optional<PooledStates> pooled;
  std::vector<TokenId> draft;         // draft for this step
  std::size_t agree = 0;              // confidence of the draft
  bool was_decoding = false;          // before this step
  bool failed = false, over = false;  // over: on_end has been called
  std::exception_ptr error;           // ends the answer

  Running(Engine& engine, Queued&& queued, std::size_t pages)
      : id(queued.id),
        request(std::move(queued.request)),
        since(queued.since),
        answer(engine.model(),
               {context(engine, request), engine.options().context_shift && !request.embedding},
               request.prompt, request.options, request.sink),
        sequence(request.sequence != nullptr
                     ? *request.sequence
                     : own.emplace(engine, request.scope, request.cache_prompt, request.adapters)),
        decoder(sequence, answer,
                request.embedding && PooledStates::needs_all(*request.embedding, causal(engine)),
                drafts_itself(engine, request)) {
    check_output(engine.model(), request.embedding);
    if (request.options.speculate == Speculate::Layers && !decoder.requests_hidden())
      throw engine.model().file().error(
          "no drafts by the model's own layers: expected layers that predict further tokens "
          "(nextn_predict_layers), no draft model, and one rank; speculation by lookup needs none");
    if (own) own->reserve(pages);
    draft.reserve(kMaxDraft);
    if (request.embedding)
      pooled.emplace(*request.embedding, vector_size(engine.model(), Pooling::None));
  }
  [[nodiscard]] std::uint64_t scope() { return StateAccess::of(sequence).scope; }
  /// The draft model's view of the text; created on first use.
  DraftModel::Text& draft_text(DraftModel& model) {
    std::optional<DraftModel::Text>& draft_of = StateAccess::of(sequence).draft;
    if (!draft_of) draft_of.emplace(model.text(request.scope, request.cache_prompt));
    return *draft_of;
  }
};

}  // namespace

struct Scheduler::State {
  Engine& engine;
  const SchedulerOptions options;
  Batch batch;
  std::deque<Queued> queue;
  std::vector<std::unique_ptr<Running>> running;  // in order of arrival
  std::vector<Running*> in_batch;                 // in order of their rows
  std::vector<Running*> readers;                  // in prefill in this step
  std::size_t to_read = 0;                        // tokens to prefill
  std::size_t writing = 0;                        // answers in decode
  std::vector<DraftModel::DraftRequest> requests;
  DraftControl drafts;
  std::size_t turn = 0;  // selects the answer that is first in this step
  Id last_id = 0;

  State(Engine& e, const SchedulerOptions& o) : engine(e), options(o), batch(e) {}

  void begin_answers();
  void begin(Queued&& next, std::size_t pages);
  void drop_ended();
  bool plan_step(const std::atomic<bool>* stop);
  void find_readers();
  void write_drafts(const std::atomic<bool>* stop);
  [[nodiscard]] std::size_t readers_share() const;
  void add_drawing();
  void add_prompts();
  void count_drafts(double seconds);
  [[nodiscard]] bool waits_for_prefix(Running& reader);
  bool add(Running& answer, std::size_t most, std::span<const TokenId> draft = {});
  void take_rows();
  void take_logits(std::span<Running* const> of);
  void take_hidden(Running& r);
  void predict_further();
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

// Answers leave the queue before callbacks, which may change it.
void Scheduler::State::begin_answers() {
  while (!queue.empty()) {
    const AnswerRequest& request = queue.front().request;
    const std::size_t pages = Engine::pages_of(most_tokens(engine, request));
    if (request.sequence == nullptr && engine.must_wait(pages)) return;
    Queued next = std::move(queue.front());
    queue.pop_front();
    begin(std::move(next), pages);
  }
}

// If an answer cannot continue, only that answer fails.
bool Scheduler::State::add(Running& r, std::size_t most, std::span<const TokenId> draft) {
  try {
    r.was_decoding = r.decoder.decoding();
    r.decoder.add_to(batch, most, draft);
    in_batch.push_back(&r);
    return true;
  } catch (const Error&) {
    end(r, std::current_exception());
    r.failed = true;
    return false;
  }
}

// Tokens of a batch that answers leave to prompts even if they could fill it: a quarter, or every
// other batch of one token.
std::size_t Scheduler::State::readers_share() const {
  const std::size_t room = batch.capacity_left();
  if (writing < room) return 0;
  const std::size_t share =
      room == 1 ? turn / running.size() % 2 : std::max<std::size_t>(1, room / 4);
  return std::min({share, options.prompt_tokens, to_read});
}

// In rounds: in each step another answer and another prompt is first.
void Scheduler::State::add_drawing() {
  const std::size_t n = running.size(), left = readers_share();
  for (std::size_t i = 0; i < n && batch.capacity_left() > left; ++i) {
    Running& r = *running[(turn + i) % n];
    if (r.decoder.decoding()) add(r, 1, r.draft);
  }
}

// True if an earlier prompt in prefill has a common prefix with this one that is longer than the
// known prefix: it is evaluated once, and found afterwards.
bool Scheduler::State::waits_for_prefix(Running& reader) {
  constexpr std::size_t kWorthWaiting = 16;  // tokens
  if (!engine.options().prefix_cache || !reader.request.cache_prompt) return false;
  if (reader.decoder.begun() || reader.decoder.reads_all()) return false;
  const std::span<const TokenId> text = reader.answer.text(), wanted = text.first(text.size() - 1);
  std::optional<std::size_t> known;
  for (const auto& other : running) {
    if (other.get() == &reader) return false;
    if (other->decoder.decoding() || other->scope() != reader.scope() ||
        !other->request.cache_prompt)
      continue;
    const std::size_t common = common_prefix(other->answer.text(), wanted);
    if (common <= other->sequence.tokens().size()) continue;
    if (common < kWorthWaiting && common < wanted.size()) continue;
    if (!known) known = reader.sequence.known_prefix(wanted);
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
    if (r.decoder.decoding()) ++writing;
    if (r.decoder.decoding() || waits_for_prefix(r)) continue;
    readers.push_back(&r);
    to_read += r.decoder.begun() ? r.decoder.missing() : r.answer.text().size();
  }
}

void Scheduler::State::add_prompts() {
  std::size_t left = batch.size() == 0 ? batch.capacity_left()
                                       : std::min(batch.capacity_left(), options.prompt_tokens);
  for (Running* const r : readers) {
    const std::size_t before = batch.size();
    const bool fits = causal(engine) ? left > 0 : left >= r->answer.text().size();
    if (fits && add(*r, left)) left -= batch.size() - before;
  }
}

// Writes drafts for the answers in decode, of the tokens that prompts leave.
void Scheduler::State::write_drafts(const std::atomic<bool>* stop) {
  const std::size_t n = running.size();
  std::optional<DraftModel>& model = StateAccess::of(engine).draft_model;
  const std::size_t all = std::min(
      options.prompt_tokens, batch.capacity_left() - std::min(batch.capacity_left(), writing));
  std::size_t left = all - std::min(all, to_read);
  const std::size_t certain = writing + all - left;
  DraftControl::Pass pass{certain, static_cast<double>(n),
                          certain};  // answers in prefill wait, too
  requests.clear();
  for (std::size_t i = 0; i < n; ++i) {
    Running& r = *running[(turn + i) % n];
    r.draft.clear();
    r.agree = 0;
    if (!r.decoder.decoding()) continue;
    const std::size_t most = std::min({left, kMaxDraft, engine.graph().rollback(),
                                       std::max<std::size_t>(1, r.answer.tokens_left()) - 1});
    const std::size_t before = pass.tokens;
    const DraftSource source = !model              ? DraftSource::Text
                               : model->predicts() ? DraftSource::Layers
                                                   : DraftSource::Model;
    const DraftChoice choice = choose_draft(r.answer, source, most, drafts, pass, r.draft);
    r.agree = choice.agree;
    if (choice.of_model != 0)
      requests.push_back({&r.draft_text(*model), r.answer.text(), choice.of_model, &r.draft});
    left -= pass.tokens - before;
  }
  if (!requests.empty()) model->write(requests, options.prompt_tokens, stop);
}

void Scheduler::State::count_drafts(double seconds) {
  std::size_t writers = 0, drafted = 0, accepted = 0;
  for (Running* const r : in_batch) {
    if (!r->was_decoding) continue;
    ++writers;
    r->answer.count_drafts(r->draft.size(), r->decoder.accepted());
    drafts.drafted_one(r->agree, r->draft.size(), r->decoder.accepted());
    drafted += r->draft.size();
    accepted += r->decoder.accepted();
  }
  if (writers == 0) return drafts.spent(seconds);
  drafts.passed(batch.size() - drafted, writers, drafted, accepted, seconds);
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
  write_drafts(stop);
  add_drawing();
  add_prompts();
  return batch.size() != 0;
}

void Scheduler::State::take_rows() {
  for (Running* const r : in_batch) r->decoder.passed();
  const std::span<Running* const> all = in_batch;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t n = 0;
    // Rows without logits begin a group.
    while (i + n < all.size() && !all[i + n]->pooled &&
           (n == 0 || all[i + n]->decoder.first_logits() == all[i + n]->decoder.first_row()))
      ++n;
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
          std::make_exception_ptr(engine.not_finite(r->sequence, r->decoder.next_position()));
      r->answer.end(StopReason::Interrupted);
    }
  if (std::ranges::any_of(in_batch, [](auto* r) { return r->decoder.requests_hidden(); }))
    predict_further();
}

// Takes the logits of neighbours in the batch, whose rows are computed together.
void Scheduler::State::take_logits(std::span<Running* const> of) {
  const auto take = [&of](std::size_t row, std::span<const float> logits) {
    while (row >= of.front()->decoder.end_row()) of = of.subspan(1);
    Running& r = *of.front();
    if (r.failed || r.answer.ended() || !r.decoder.needs(row)) return;
    r.failed = !all_finite(logits);
    if (r.failed) return;
    try {
      r.decoder.take(row, logits);
    } catch (const std::exception&) {  // from a sink, or a constraint that costs too much
      r.failed = true;
      r.error = std::current_exception();
      if (!r.answer.ended()) r.answer.end(StopReason::Interrupted);
      return;
    }
    if (r.answer.drawn() != 0 && r.request.on_first_token)
      std::exchange(r.request.on_first_token, {})(seconds_since(r.since));
  };
  batch.for_each_row(of.front()->decoder.first_logits(), of.back()->decoder.end_row(), take);
}

// Hands the hidden states of what has become part of the texts to the prediction layer.
void Scheduler::State::predict_further() {
  DraftModel& model = *StateAccess::of(engine).draft_model;
  for (Running* const r : in_batch) {
    const SequenceDecoder& of = r->decoder;
    if (!of.requests_hidden() || r->failed) continue;
    const std::span<const float> hidden =
        batch.hidden(of.first_row(), of.first_row() + of.kept_rows());
    model.take(r->draft_text(model), r->answer.text(), of.first_position(), hidden);
  }
}

void Scheduler::State::take_hidden(Running& r) {
  const std::span<const float> rows = batch.hidden(r.decoder.first_row(), r.decoder.end_row());
  r.failed = !all_finite(rows);
  if (r.failed || r.answer.ended()) return;  // ended by a callback of another answer
  if (r.request.embedding != Pooling::Rank) {
    r.pooled->add(rows);
  } else if (r.decoder.decoding()) {  // of the last row, or an encoder's first
    const std::size_t row = causal(engine) ? r.decoder.end_row() - 1 : r.decoder.first_row();
    const std::span<const float> labels = batch.logits(row, row + 1);
    r.failed = !all_finite(labels);
    r.pooled->set_labels(labels);
  }
  if (r.decoder.decoding() && !r.failed) r.answer.end(StopReason::Length);
}

void Scheduler::State::end(Running& r, std::exception_ptr error) {
  if (!r.answer.ended()) r.answer.end(StopReason::Interrupted);
  r.decoder.finish();
  GenerateResult result;
  try {  // the owner of a sequence gets the error alone
    if (!error || r.own) result = r.answer.result();
  } catch (const std::exception&) {  // from the sink, which receives the text held back
    if (!error) error = std::current_exception();
  }
  if (r.pooled && result.reason == StopReason::Length) result.embedding = r.pooled->result();
  result.dropped = r.request.dropped;
  r.over = true;
  if (error && r.request.on_error) r.request.on_error(error);
  if (r.request.on_end) r.request.on_end(std::move(result), as_error(error));
}

// Callbacks may throw or cancel others: answers are removed after all of them.
void Scheduler::State::end_answers() {
  for (const auto& r : running)
    if (r->answer.ended() && !r->over) end(*r, std::exchange(r->error, nullptr));
  std::erase_if(running, [](const auto& r) { return r->over; });
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
  state_->requests.clear();
  state_->running.clear();
  state_->queue.clear();
}

void Scheduler::drop_ended() { state_->drop_ended(); }

bool Scheduler::step(const std::atomic<bool>* stop) {
  const auto start = Clock::now();
  const DefaultFloatMode mode;  // for sampling, too
  const StopOn stop_on(state_->engine, stop);
  try {
    if (!state_->plan_step(stop)) {
      state_->end_answers();  // answers that could not be added
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
    all.push_back({r->decoder.decoding() ? 0 : text - std::min(text, known), r->answer.drawn(),
                   r->pooled ? 0 : r->answer.tokens_left()});
  }
  return all;
}

}  // namespace cria
