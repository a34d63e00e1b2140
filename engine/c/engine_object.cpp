// Threads that share an engine: one computes for all answers, the others wait for theirs.
#include <algorithm>

#include "engine/c/objects.h"
#include "engine/execute/executor.h"

namespace cria::c_api {

void AnswerBuffer::add(AnswerPart part, std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (pieces_.empty() || pieces_.back().part != part) pieces_.push_back({part, {}});
  pieces_.back().text += text;
}

void AnswerBuffer::end(GenerateResult result) {
  const std::scoped_lock lock(mutex_);
  result_ = std::move(result);
  ended_ = true;
}

void AnswerBuffer::fail(const std::exception_ptr& error) {
  const std::scoped_lock lock(mutex_);
  error_ = error;
}

std::optional<AnswerBuffer::Piece> AnswerBuffer::take() {
  const std::scoped_lock lock(mutex_);
  if (pieces_.empty()) return std::nullopt;
  Piece first = std::move(pieces_.front());
  pieces_.erase(pieces_.begin());
  return first;
}

bool AnswerBuffer::has_news() const {
  const std::scoped_lock lock(mutex_);
  return ended_ || !pieces_.empty();
}

bool AnswerBuffer::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

const GenerateResult& AnswerBuffer::result() const {
  const std::scoped_lock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
  return result_;
}

EngineObject::EngineObject(std::shared_ptr<ModelObject> of, const EngineOptions& options)
    : model(std::move(of)), engine(*model->model, options), scheduler_(engine) {}

void EngineObject::append(Place& place) {
  Place** at = &first_place_;
  while (*at != nullptr) at = &(*at)->next;
  *at = &place;
  place.next = nullptr;
}

void EngineObject::remove(const Place& place) {
  Place** at = &first_place_;
  while (*at != &place) at = &(*at)->next;
  *at = place.next;
}

// The queue keeps a thread that computes in a loop from overtaking threads that sleep.
bool EngineObject::wait_for_turn(Place& place, const std::function<bool()>& enough) {
  std::unique_lock lock(mutex_);
  if (place.threads++ == 0) append(place);
  const auto next = [&] { return !busy_ && first_place_ == &place; };
  changed_.wait(lock, [&] { return next() || enough(); });
  const bool mine = next();
  busy_ = busy_ || mine;
  if (--place.threads == 0 || mine) remove(place);
  if (place.threads != 0 && mine) append(place);  // for another turn, at the end
  return mine;
}

EngineObject::Turn::Turn(EngineObject& engine) : engine_(engine) {
  Place own;
  mine_ = engine.wait_for_turn(own, [] { return false; });
}

EngineObject::Turn::Turn(EngineObject& engine, const std::function<bool()>& enough,
                         bool for_answers)
    : engine_(engine) {
  Place own;
  mine_ = engine.wait_for_turn(for_answers ? engine.answers_place_ : own, enough);
}

EngineObject::Turn::~Turn() {
  if (!mine_) return;
  std::unique_lock lock(engine_.mutex_);
  engine_.end_turn(lock);
}

// Ends answers that were cancelled in the meantime: no thread may ever step again.
void EngineObject::end_turn(std::unique_lock<std::mutex>& lock) {
  while (std::exchange(cancelled_, false)) {
    lock.unlock();
    try {
      take_new();
      cancel_interrupted();
      scheduler_.drop_ended();
      forget_ended();
    } catch (...) {  // the next step fails in the same way
    }
    lock.lock();
  }
  busy_ = false;
  changed_.notify_all();
}

void EngineObject::begin(AnswerRequest request, const std::shared_ptr<AnswerBuffer>& writing) {
  // The buffer does not own the engine: freeing an engine discards unfinished answers.
  request.options.interrupt = &writing->interrupt;
  request.sink = [writing](std::string_view text) {
    return writing->add(AnswerPart::Answer, text), true;
  };
  request.options.on_thinking = [writing](std::string_view text) {
    return writing->add(AnswerPart::Thinking, text), true;
  };
  request.on_error = [writing](const std::exception_ptr& error) { writing->fail(error); };
  request.on_end = [writing](GenerateResult result, const std::optional<Error>&) {
    writing->end(std::move(result));
  };
  const std::scoped_lock lock(mutex_);
  begun_.emplace_back(std::move(request), writing);
}

void EngineObject::take_new() {
  const std::scoped_lock lock(mutex_);
  live_.reserve(live_.size() + begun_.size());
  for (auto& [request, writing] : begun_) {
    writing->id = scheduler_.add(std::move(request));
    live_.push_back(writing);
  }
  begun_.clear();
}

void EngineObject::cancel_interrupted() {
  for (const auto& writing : live_)
    if (writing->interrupt) scheduler_.cancel(writing->id);  // even if it is queued
}

void EngineObject::forget_ended() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(live_, [](const auto& writing) { return writing->ended(); });
}

bool EngineObject::step() {
  take_new();
  cancel_interrupted();
  const bool worked = scheduler_.step(&stop_);
  // A concurrent request to stop is not lost: it has set the answer's own flag before.
  stop_ = false;
  forget_ended();
  return worked;
}

void EngineObject::check_cancels(std::uint64_t cancels) const {
  if (cancels_ != cancels) throw Failure(CRIA_ERROR_CANCELLED, "cancelled");
}

bool EngineObject::forward(Batch& batch, std::uint64_t cancels) {
  const StopOn stop_on(engine, &stop_);
  bool whole = true;
  try {
    batch.forward();
  } catch (const EvaluationStopped&) {
    whole = false;
  }
  stop_ = false;  // as in step()
  check_cancels(cancels);
  return whole;
}

void EngineObject::step_until(const std::function<bool()>& enough) {
  while (!enough()) {
    const Turn turn(*this, enough, true);
    if (!turn || enough()) continue;
    if (!step() && !enough()) throw std::logic_error("an answer is missing from the scheduler");
  }
}

void EngineObject::with_free(std::size_t sequences, const std::function<std::size_t()>& pages,
                             const std::function<void()>& f) {
  const std::uint64_t cancels = cancels_;
  for (;;) {
    const Turn turn(*this);
    check_cancels(cancels);
    if (!engine.must_wait(pages(), sequences)) return f();
    step();
  }
}

void EngineObject::cancel(AnswerBuffer& writing, bool interrupting) {
  if (writing.ended()) return;
  writing.interrupt = true;
  std::unique_lock lock(mutex_);
  cancelled(lock, interrupting);
}

void EngineObject::cancel_all() {
  std::unique_lock lock(mutex_);
  ++cancels_;
  for (const auto& writing : live_) writing->interrupt = true;
  for (const auto& [request, writing] : begun_) writing->interrupt = true;
  cancelled(lock, true);
}

void EngineObject::cancelled(std::unique_lock<std::mutex>& lock, bool interrupting) {
  cancelled_ = true;
  if (busy_) {
    if (interrupting) stop_ = true;
    return;  // the thread that computes ends them with its turn
  }
  busy_ = true;
  end_turn(lock);
}

SequenceObject::SequenceObject(std::shared_ptr<EngineObject> of, std::uint64_t scope)
    : engine(std::move(of)) {
  const EngineObject::Turn turn(*engine);
  sequence.emplace(engine->engine, scope);
}

std::shared_ptr<SequenceObject> SequenceObject::for_call(const std::shared_ptr<EngineObject>& of,
                                                         std::size_t tokens) {
  const std::size_t pages = std::max<std::size_t>(1, Engine::pages_of(tokens));
  std::shared_ptr<SequenceObject> made;
  of->with_free(
      1, [pages] { return pages; },
      [&] {
        Sequence own(of->engine);
        own.reserve(pages);
        made = std::make_shared<SequenceObject>(of, std::move(own));
      });
  return made;
}

SequenceObject::~SequenceObject() {
  const EngineObject::Turn turn(*engine);
  sequence.reset();
}

}  // namespace cria::c_api
