#include "tools/serve/service/service.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "model/plural.h"
#include "tools/terminal/terminal.h"

namespace cria::serve {

namespace {

constexpr double kNews = 1.0 / 16;  // share of the last value in an average

void add_news(std::optional<double>& average, double value) {
  average = average ? *average + kNews * (value - *average) : value;
}

}  // namespace

void SlotWait::stepped(double seconds) { add_news(step_seconds_, seconds); }
void SlotWait::ended(std::size_t tokens) { add_news(tokens_, static_cast<double>(tokens)); }

double SlotWait::steps_left(const Scheduler::Progress& answer) const {
  auto tokens = static_cast<double>(answer.may_draw);
  if (tokens_) tokens = std::min(tokens, std::max(*tokens_, static_cast<double>(answer.drawn)));
  return tokens + static_cast<double>(answer.to_read) / static_cast<double>(prompt_tokens_);
}

int SlotWait::seconds(std::span<const Scheduler::Progress> running, std::size_t earlier) const {
  if (running.empty() || !step_seconds_) return 1;
  if (earlier >= running.size()) return kMost;
  std::vector<double> steps;
  for (const Scheduler::Progress& answer : running) steps.push_back(steps_left(answer));
  std::ranges::sort(steps);
  return static_cast<int>(
      std::clamp(std::ceil(steps[earlier] * *step_seconds_), 1.0, double{kMost}));
}

Failure shutting_down() { return {503, "shutting_down", "the server is shutting down"}; }

Failure queue_full(std::size_t waiting, int retry_after) {
  return {503, "queue_full", counted(waiting, "request") + " wait already; try again later",
          retry_after};
}

Failure too_late(bool begun, std::chrono::milliseconds limit) {
  const std::string seconds =
      counted(static_cast<std::size_t>(limit.count() + 999) / 1000, "second");
  return {503, "timeout",
          begun ? "the answer was not complete within " + seconds
                : "no slot was free within " + seconds};
}

struct Service::Active {
  Id id;
  Job job;
  Clock::time_point since;  // it waits, or runs
  std::size_t next = 0;     // answers that have begun
  std::size_t left = 0;     // answers that have not ended
  std::vector<Scheduler::Id> running;
  bool ended = false, cancelled = false;

  [[nodiscard]] bool begun() const { return next > 0; }
};

Service::Service(const Model& model, const ServiceOptions& options, Metrics& metrics)
    : options_(options),
      metrics_(metrics),
      engine_(model, options.engine),
      scheduler_(std::make_unique<Scheduler>(engine_, options.scheduler)),
      slot_wait_(options.scheduler.prompt_tokens),
      running_part_(metrics.requests_running),
      positions_part_(metrics.kv_positions),
      positions_used_part_(metrics.kv_positions_used),
      waiting_part_(metrics.requests_waiting) {
  positions_part_.set(slots() * n_ctx());
  thread_ = std::thread([this] { run(); });
}

Service::~Service() { stop(); }

void Service::stop() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Service::Id Service::submit(Job job) {
  const auto active = std::make_shared<Active>();
  active->left = job.count;
  active->job = std::move(job);
  active->since = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (closing_) throw shutting_down();
    const std::size_t free = slots() - std::min(slots(), drawn_.size());
    const std::uint64_t all = waiting_ + metrics_.requests_waiting.value() - waiting_part_.value();
    if (all >= options_.queue + free) throw queue_full(all, retry_after_);
    ++waiting_;
    active->id = ++last_id_;
    if (active->job.on_accepted) active->job.on_accepted();
    inbox_.push_back(active);
  }
  changed_.notify_all();
  return active->id;
}

void Service::cancel(Id id) {
  {
    const std::lock_guard lock(mutex_);
    cancels_.push_back(id);
  }
  changed_.notify_all();
}

void Service::shut_down(std::chrono::milliseconds grace) {
  {
    const std::lock_guard lock(mutex_);
    if (!closing_) end_of_grace_ = Clock::now() + grace;
    closing_ = true;
  }
  changed_.notify_all();
}

void Service::wait_for_end() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_; });
}

std::vector<std::size_t> Service::busy_slots() const {
  const std::lock_guard lock(mutex_);
  return drawn_;
}

std::string Service::summary() const {
  EngineOptions alone = options_.engine;  // the engine's own options include cached prefixes
  alone.draft = nullptr;
  const std::uint64_t cache = std::exchange(alone.prefix_cache_bytes, 0);
  const EngineMemory memory = engine_memory(model(), alone);
  return counted(slots(), "slot") + " of " + counted(n_ctx(), "token") + ", " +
         tools::human_bytes(memory.kv) + " of keys and values" +
         (cache == 0 ? "" : ", up to " + tools::human_bytes(cache) + " of cached prompts");
}

void Service::run() {
  while (take_orders()) {
    end_late();
    feed();
    publish();
    step();
    forget_ended();
    publish();
  }
  jobs_.clear();
  scheduler_.reset();
  std::vector<ActivePointer> unread;  // they end here: their models must outlive them
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    unread.swap(inbox_);
  }
  changed_.notify_all();
}

// Waits for work. False: the service has stopped.
bool Service::take_orders() {
  std::vector<Id> cancels;
  {
    std::unique_lock lock(mutex_);
    const bool idle = jobs_.empty() && scheduler_->active() == 0 && scheduler_->waiting() == 0;
    if (idle) changed_.wait(lock, [this] { return !inbox_.empty() || closing_ || abandoned_; });
    if (abandoned_ || (closing_ && idle && inbox_.empty())) return false;
    jobs_.insert(jobs_.end(), inbox_.begin(), inbox_.end());
    inbox_.clear();
    cancels.swap(cancels_);
  }
  apply_cancels(cancels);
  return true;
}

void Service::apply_cancels(const std::vector<Id>& ids) {
  for (const ActivePointer& job : jobs_)
    if (!job->ended && std::ranges::count(ids, job->id) != 0) {
      job->cancelled = true;
      drop(*job);
    }
}

// Its answers end without a word.
void Service::drop(Active& job) {
  job.ended = true;
  for (const Scheduler::Id id : job.running) scheduler_->cancel(id);
}

void Service::fail(Active& job, const Failure& failure) {
  if (job.ended) return;
  const auto call = std::exchange(job.job.on_failure, {});
  drop(job);
  if (call) call(failure);
}

void Service::end_late() {
  const Clock::time_point now = Clock::now();
  bool closing = false, grace_is_over = false;
  {
    const std::lock_guard lock(mutex_);
    closing = closing_;
    grace_is_over = closing_ && now >= end_of_grace_;
  }
  const auto limit = options_.request_timeout;
  for (const ActivePointer& job : jobs_) {
    if (grace_is_over || (closing && !job->begun())) fail(*job, shutting_down());
    if (limit.count() != 0 && now - job->since > limit) fail(*job, too_late(job->begun(), limit));
  }
  forget_ended();
}

// Starts jobs in the order of arrival while slots are free.
void Service::feed() {
  for (const ActivePointer& job : jobs_) {
    while (!job->ended && job->next < job->job.count) {
      if (scheduler_->active() + scheduler_->waiting() >= slots()) return;
      begin_answer(job);
    }
  }
}

void Service::begin_answer(const ActivePointer& job) {
  if (!job->begun()) {
    job->since = Clock::now();
    if (job->job.on_begin) job->job.on_begin();
  }
  const std::size_t index = job->next++;
  try {
    AnswerRequest request = job->job.answer(index);
    request.on_end = [this, job, index, told = std::move(request.on_end)](
                         GenerateResult result, const std::optional<Error>& error) {
      answer_ended(job, index, std::move(result), error, told);
    };
    job->running.push_back(scheduler_->add(std::move(request)));
  } catch (const std::exception& error) {
    fail(*job, {500, "internal_error", error.what()});
  }
}

void Service::answer_ended(const ActivePointer& job, std::size_t index, GenerateResult&& result,
                           const std::optional<Error>& error, const AnswerEnd& told) {
  if (job->cancelled && job->job.on_cancelled) job->job.on_cancelled(index, std::move(result));
  if (job->ended) return;
  if (error) return fail(*job, {500, "internal_error", error->what()});
  if (result.embedding.empty() && result.scores.empty()) slot_wait_.ended(result.tokens.size());
  job->ended = --job->left == 0;
  try {
    if (told) told(std::move(result), std::nullopt);
  } catch (const std::exception& failed) {  // fails this job; the others continue
    job->ended = false;
    fail(*job, {500, "internal_error", failed.what()});
  }
}

void Service::step() {
  const Clock::time_point begin = Clock::now();
  try {
    if (scheduler_->step()) {
      metrics_.steps.add();
      slot_wait_.stepped(std::chrono::duration<double>(Clock::now() - begin).count());
    }
  } catch (const std::exception& error) {  // not of one answer: all fail
    for (const ActivePointer& job : jobs_)
      if (job->begun()) fail(*job, {500, "internal_error", error.what()});
    scheduler_->clear();
  }
}

void Service::forget_ended() {
  std::erase_if(jobs_, [](const ActivePointer& job) { return job->ended; });
}

// Time until the first waiting job begins, after the jobs before it.
int Service::seconds_to_a_place() const {
  if (scheduler_->active() < slots()) return 1;
  std::size_t earlier = 0;
  for (const ActivePointer& job : jobs_)
    if (job->begun()) earlier += job->job.count - job->next;
  return slot_wait_.seconds(scheduler_->progress(), earlier);
}

void Service::publish() {
  const auto waiting = static_cast<std::size_t>(
      std::ranges::count_if(jobs_, [](const auto& job) { return !job->begun(); }));
  const int retry_after = seconds_to_a_place();
  std::vector<std::size_t> drawn;
  for (const Scheduler::Progress& answer : scheduler_->progress()) drawn.push_back(answer.drawn);
  drawn.resize(drawn.size() + scheduler_->waiting());
  {
    const std::lock_guard lock(mutex_);
    waiting_ = waiting + inbox_.size();
    drawn_ = std::move(drawn);
    retry_after_ = retry_after;
    waiting_part_.set(waiting_);
  }
  running_part_.set(jobs_.size() - waiting);
  positions_used_part_.set(scheduler_->positions());
}

}  // namespace cria::serve
