#include "tools/serve/models/model_pool.h"

#include <algorithm>
#include <utility>

#include "model/plural.h"

namespace cria::serve {
namespace {

constexpr std::string_view kLatest = ":latest";

std::string without_latest(std::string name) {
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  return name;
}

std::uint64_t mib(std::uint64_t bytes) { return (bytes + (1 << 20) - 1) >> 20U; }

Failure too_large(const std::string& id, std::uint64_t needed, std::uint64_t limit) {
  return {503, "insufficient_memory",
          "the model \"" + id + "\" takes " + std::to_string(mib(needed)) + " MiB, the limit is " +
              std::to_string(limit >> 20U) +
              " MiB (--models-memory); a shorter context or fewer slots need less"};
}

}  // namespace

ModelPool::ModelPool(std::vector<ModelSource> sources, std::size_t standard,
                     const PoolOptions& options, Metrics& metrics)
    : options_(options),
      standard_(standard),
      metrics_(metrics),
      waiting_part_(metrics.requests_waiting) {
  for (ModelSource& source : sources)
    slots_.push_back(std::make_unique<Slot>(Slot{.source = std::move(source)}));
  Lock lock(mutex_);
  if (!options_.on_demand)
    for (const auto& slot : slots_) load(*slot, lock);
  thread_ = std::thread([this] { run(); });
}

ModelPool::~ModelPool() { stop(); }

std::optional<std::size_t> ModelPool::known(const std::string& name) const {
  for (const bool plain : {false, true})
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (plain ? without_latest(id(i)) == without_latest(name) : id(i) == name) return i;
  return std::nullopt;
}

std::size_t ModelPool::find(const std::string& name, bool strict) const {
  if (name.empty()) return standard_;
  if (const auto found = known(name)) return *found;
  if (!strict && !options_.strict) return standard_;
  const std::string there =
      size() == 1 ? "\"" + id(0) + "\"" : counted(size(), "model") + " (GET /v1/models)";
  throw tools::RequestError(
      "model_not_found", "model",
      "unknown model \"" + name.substr(0, 100) + "\"; this server has " + there, 404);
}

// ------------------------------------------------------------ requests

// Callers may hold the lease on the thread of its service, so its end changes only numbers here.
ModelLease ModelPool::lease(Slot& slot, bool request) {
  ++slot.uses;
  return {slot.model.get(), [this, &slot, request](const ServedModel*) { end_use(slot, request); }};
}

ModelLease ModelPool::begin_use(Slot& slot, KeepAlive keep_alive) {
  slot.last_use = Clock::now();
  slot.keep = keep_alive.value_or(options_.idle);
  return lease(slot, true);
}

void ModelPool::end_use(Slot& slot, bool request) {
  Lock lock(mutex_);
  --slot.uses;
  if (request) slot.idle_since = Clock::now();
  settle(lock);
}

ModelLease ModelPool::use(std::size_t model, KeepAlive keep_alive) {
  const std::lock_guard lock(mutex_);
  Slot& slot = *slots_[model];
  return ready(slot) && !closing_ ? begin_use(slot, keep_alive) : nullptr;
}

ModelPool::Id ModelPool::fresh_id() {
  const std::lock_guard lock(mutex_);
  return ++last_id_;
}

void ModelPool::wait(Id id, Waiter waiter) {
  Lock lock(mutex_);
  if (closing_) throw shutting_down();
  Slot& slot = *slots_[waiter.model];
  const std::uint64_t all = metrics_.requests_waiting.value();
  if (!ready(slot) && all >= options_.queue) throw queue_full(all, 1);
  waiting_.push_back({id, &slot, std::move(waiter), Clock::now()});
  settle(lock);
}

void ModelPool::cancel(Id id) {
  Waiter gone;  // its calls may hold the last pointer to a request
  Lock lock(mutex_);
  const auto found = std::ranges::find(waiting_, id, &Waiting::id);
  if (found == waiting_.end()) return;
  gone = std::move(found->waiter);
  waiting_.erase(found);
  settle(lock);
}

void ModelPool::expire(std::size_t model) {
  Lock lock(mutex_);
  slots_[model]->keep = {};
  settle(lock);
}

// ------------------------------------------------------------ what lists show

ModelPool::Entry ModelPool::entry(std::size_t model) {
  Lock lock(mutex_);
  Slot& slot = *slots_[model];
  if (!slot.card) {
    lock.unlock();
    std::optional<ModelCard> card;
    try {
      card = slot.source.open()->card;
    } catch (const std::exception&) {  // requests for the model get the reason
    }
    lock.lock();
    if (!slot.card) slot.card = std::move(card);
  }
  Entry entry{.id = slot.source.id, .in_use = slot.uses > 0, .card = slot.card};
  if (slot.state == State::Loaded || slot.state == State::Unloading) entry.status = "loaded";
  if (slot.state == State::Loading) entry.status = "loading";
  if (const auto time = expiry(slot))
    entry.expires =
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(*time - Clock::now());
  return entry;
}

ModelLease ModelPool::look_at(std::size_t model) {
  Slot& slot = *slots_[model];
  {
    const std::lock_guard lock(mutex_);
    if (slot.state == State::Loaded) return lease(slot, false);
  }
  return slot.source.open();
}

// ------------------------------------------------------------ plans

// Decides what comes next, and makes the calls of requests that need not wait any longer.
void ModelPool::settle(Lock& lock) {
  Calls calls;
  plan(calls);
  waiting_part_.set(waiting_.size());
  lock.unlock();
  changed_.notify_all();
  for (const auto& call : calls) call();
}

// In order of arrival. The first request for a model that is not there decides what is loaded, and
// what has to go for it; later ones get a model only if it stays.
void ModelPool::plan(Calls& calls) {
  for (const auto& slot : slots_) slot->leaving = false;
  task_ = {};
  if (options_.request_timeout.count() != 0) {
    const Clock::time_point latest = Clock::now() - options_.request_timeout;
    fail([&](const Waiting& one) { return one.since < latest; },
         too_late(false, options_.request_timeout), calls);
  }
  const Slot* next = nullptr;
  for (std::size_t i = 0; i < waiting_.size();) {
    Slot& slot = *waiting_[i].slot;
    if (ready(slot)) {
      calls.push_back([call = std::move(waiting_[i].waiter.on_ready),
                       lease = begin_use(slot, waiting_[i].waiter.keep_alive)] { call(lease); });
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    if (slot.state == State::Unloaded && next == nullptr) {
      if (slot.card && slot.card->memory > options_.max_memory) {
        fail([&slot](const Waiting& one) { return one.slot == &slot; },
             too_large(slot.source.id, slot.card->memory, options_.max_memory), calls);
        continue;  // the first i requests are for other models
      }
      next = &slot;
      plan_load(slot);
    }
    ++i;
  }
  if (task_.kind == Task::Kind::None && options_.on_demand) plan_expiry();
}

// Idle models go first, the least recently used before others. A busy one is waited for.
void ModelPool::plan_load(Slot& slot) {
  std::size_t count = 1;
  std::uint64_t bytes = slot.card ? slot.card->memory : 0;
  std::vector<Slot*> loaded;
  for (const auto& one : slots_) {
    if (one->state != State::Loading && one->state != State::Loaded) continue;
    ++count;
    bytes += one->card->memory;
    if (one->state == State::Loaded) loaded.push_back(one.get());
  }
  std::ranges::stable_sort(loaded, [](const Slot* a, const Slot* b) {
    return a->idle() != b->idle() ? a->idle() : a->last_use < b->last_use;
  });
  const auto fits = [&] {
    return (options_.max_loaded == 0 || count <= options_.max_loaded) &&
           bytes <= options_.max_memory;
  };
  bool now = true;
  for (Slot* const one : loaded) {
    if (fits()) break;
    one->leaving = true;
    now = false;
    --count;
    bytes -= one->card->memory;
    if (one->idle() && task_.kind == Task::Kind::None) task_ = {Task::Kind::Unload, one};
  }
  if (!slot.card)
    task_ = {Task::Kind::Open, &slot};
  else if (now && fits())
    task_ = {Task::Kind::Load, &slot};
}

void ModelPool::plan_expiry() {
  const Clock::time_point now = Clock::now();
  for (const auto& slot : slots_)
    if (const auto time = expiry(*slot); slot->idle() && time && *time <= now)
      task_ = {Task::Kind::Unload, slot.get()};
}

// A model in use expires as if its request ended now.
std::optional<ModelPool::Clock::time_point> ModelPool::expiry(const Slot& slot) const {
  if (!options_.on_demand || slot.state != State::Loaded || slot.keep.count() < 0)
    return std::nullopt;
  return (slot.uses > 0 ? Clock::now() : slot.idle_since) + slot.keep;
}

void ModelPool::fail(const std::function<bool(const Waiting&)>& which, const Failure& failure,
                     Calls& calls) {
  const auto failed = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [&](const Waiting& one) { return !which(one); });
  for (auto one = failed; one != waiting_.end(); ++one)
    calls.push_back([call = std::move(one->waiter.on_failure), failure] { call(failure); });
  waiting_.erase(failed, waiting_.end());
}

std::optional<ModelPool::Clock::time_point> ModelPool::next_event() const {
  std::optional<Clock::time_point> next;
  const auto add = [&next](Clock::time_point time) { next = std::min(next.value_or(time), time); };
  for (const auto& slot : slots_)
    if (const auto time = expiry(*slot); time && slot->idle()) add(*time);
  if (options_.request_timeout.count() != 0)
    for (const Waiting& one : waiting_) add(one.since + options_.request_timeout);
  return next;
}

// ------------------------------------------------------------ the thread

void ModelPool::run() {
  for (Lock lock(mutex_); !stopping_;) {
    settle(lock);
    lock.lock();
    if (stopping_) return;
    if (task_.kind != Task::Kind::None)
      do_task(lock);
    else if (const auto time = next_event())
      changed_.wait_until(lock, *time);
    else
      changed_.wait(lock);
  }
}

void ModelPool::do_task(Lock& lock) {
  Slot& slot = *task_.slot;
  const Task::Kind kind = std::exchange(task_, {}).kind;
  if (kind == Task::Kind::Unload) return unload(slot, lock);
  try {
    if (kind == Task::Kind::Load) return load(slot, lock);
    lock.unlock();
    const ModelCard card = slot.source.open()->card;
    lock.lock();
    slot.card = card;
  } catch (const std::exception& error) {
    load_failed(slot, error.what(), lock);
  }
}

void ModelPool::load(Slot& slot, Lock& lock) {
  slot.state = State::Loading;
  lock.unlock();
  std::unique_ptr<const ServedModel> model;
  model = slot.source.load();
  lock.lock();
  slot.card = model->card;
  slot.card->n_ctx = model->n_ctx();
  slot.model = std::move(model);
  slot.state = State::Loaded;
  slot.last_use = slot.idle_since = Clock::now();
  slot.keep = options_.idle;
  metrics_.model_loads.add();
  metrics_.models_loaded.add();
}

// The next request for the model tries again.
void ModelPool::load_failed(Slot& slot, const std::string& reason, Lock& lock) {
  if (!lock.owns_lock()) lock.lock();
  slot.state = State::Unloaded;
  slot.card.reset();
  Calls calls;
  fail([&slot](const Waiting& one) { return one.slot == &slot; },
       {500, "model_load_failed", reason}, calls);
  lock.unlock();
  for (const auto& call : calls) call();
  lock.lock();
}

void ModelPool::unload(Slot& slot, Lock& lock) {
  slot.state = State::Unloading;
  auto model = std::exchange(slot.model, nullptr);
  lock.unlock();
  model.reset();
  lock.lock();
  slot.state = State::Unloaded;
  metrics_.models_loaded.add(std::uint64_t{0} - 1);
  metrics_.model_unloads.add();
}

// ------------------------------------------------------------ the end

void ModelPool::shut_down(std::chrono::milliseconds grace) {
  Lock lock(mutex_);
  closing_ = true;
  Calls calls;
  fail([](const Waiting&) { return true; }, shutting_down(), calls);
  for (const auto& slot : slots_)
    if (slot->model != nullptr) slot->model->service->shut_down(grace);
  settle(lock);
  for (const auto& call : calls) call();
}

void ModelPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& slot : slots_)
    if (slot->model != nullptr) slot->model->service->stop();
  std::vector<Waiting> gone;
  const std::lock_guard lock(mutex_);
  gone.swap(waiting_);
}

}  // namespace cria::serve
