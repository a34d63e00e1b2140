// The models of a server: which of them are loaded, and which requests wait for one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tools/serve/models/served_model.h"

namespace cria::serve {

/// A loaded model in use: it is not unloaded while a copy exists.
using ModelLease = std::shared_ptr<const ServedModel>;

/// A model that can be loaded.
struct ModelSource {
  std::string id;    ///< name for clients
  std::string path;  ///< the first of its files
  /// Opens it without a service: takes little memory and time. Throws Error.
  std::function<std::unique_ptr<const ServedModel>()> open;
  /// Loads it, with a service. Throws Error.
  std::function<std::unique_ptr<const ServedModel>()> load;
};

struct PoolOptions {
  /// Load models when requests ask for them, and unload them; else all are loaded at once, for
  /// good.
  bool on_demand = false;
  bool strict = false;                  ///< refuse unknown names; else they mean the default model
  std::size_t max_loaded = 0;           ///< models loaded at once; 0: any number
  std::uint64_t max_memory = SIZE_MAX;  ///< sum of ModelCard::memory of the loaded models
  /// Time without requests after which a model is unloaded; negative: never.
  std::chrono::milliseconds idle{300'000};
  std::size_t queue = 64;                       ///< requests that may wait, as in ServiceOptions
  std::chrono::milliseconds request_timeout{};  ///< time limit for waiting; 0: none
};

/// Loads models and unloads those that are idle, on a thread of its own. Requests that need a load
/// wait in order of arrival. A busy model that has to go for one of them gets no later request.
/// Its public functions are called by any thread.
class ModelPool {
 public:
  using Id = std::uint64_t;
  using Clock = std::chrono::steady_clock;
  /// Time without requests after which the model goes; nullopt: the default; negative: never.
  using KeepAlive = std::optional<std::chrono::milliseconds>;

  /// sources: at least one, by name; `standard` is the index of the default one. Throws what a
  /// model's load does, unless models are loaded on demand. The metrics must outlive it.
  ModelPool(std::vector<ModelSource> sources, std::size_t standard, const PoolOptions& options,
            Metrics& metrics);
  ~ModelPool();  ///< stop(); all leases must be gone
  ModelPool(const ModelPool&) = delete;
  ModelPool& operator=(const ModelPool&) = delete;

  /// Returns the index of the model with that name, also if one of the two ends in ":latest"; ""
  /// means the default one. Other names mean it too, unless the options or `strict` forbid that:
  /// throws RequestError "model_not_found".
  [[nodiscard]] std::size_t find(const std::string& name, bool strict = false) const;
  /// Returns nullopt for names that are unknown.
  [[nodiscard]] std::optional<std::size_t> known(const std::string& name) const;
  [[nodiscard]] const std::string& id(std::size_t model) const { return slots_[model]->source.id; }
  /// Returns the model if no request has to wait for it, else null.
  ModelLease use(std::size_t model, KeepAlive keep_alive);

  /// A request for a model that has to wait.
  struct Waiter {
    std::size_t model = 0;
    KeepAlive keep_alive = {};
    /// One of them is called, on any thread, and returns at once.
    std::function<void(ModelLease lease)> on_ready = {};
    std::function<void(const Failure& failure)> on_failure = {};
  };
  /// Returns a name for a waiter.
  Id fresh_id();
  /// Throws Failure "queue_full" or "shutting_down".
  void wait(Id id, Waiter waiter);
  /// The waiter leaves without a call; a load that it has caused continues.
  void cancel(Id id);
  /// Unloads a model as soon as no request uses it.
  void expire(std::size_t model);

  /// A model as the lists show it.
  struct Entry {
    std::string id;
    std::string_view status = "unloaded";  ///< "loaded", "loading" or "unloaded"
    bool in_use = false;                   ///< requests or views hold it: it cannot be unloaded
    std::optional<ModelCard> card = {};    ///< nullopt: the model cannot be opened
    /// Time at which it is unloaded unless requests come; nullopt: never, or not loaded.
    std::optional<std::chrono::system_clock::time_point> expires = {};
  };
  /// May open the model, for the first time.
  [[nodiscard]] Entry entry(std::size_t model);
  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] bool on_demand() const { return options_.on_demand; }
  /// Returns the model if it is loaded, else opens it to look at it; not counted as a request.
  /// Throws Error.
  [[nodiscard]] ModelLease look_at(std::size_t model);

  /// Waiting requests fail at once; as Service::shut_down() for each model.
  void shut_down(std::chrono::milliseconds grace);
  /// Drops all requests; no call is made after it.
  void stop();

 private:
  enum class State : std::uint8_t { Unloaded, Loading, Loaded, Unloading };
  struct Slot {
    ModelSource source;
    State state = State::Unloaded;
    std::unique_ptr<const ServedModel> model = {};
    std::size_t uses = 0;  // leases
    bool leaving = false;  // has to go for an earlier request
    std::optional<ModelCard> card = {};
    Clock::time_point last_use = {};      // begin of the last request, or the load
    Clock::time_point idle_since = {};    // end of the last request, or the load
    std::chrono::milliseconds keep = {};  // the last request's keep_alive
    [[nodiscard]] bool idle() const { return state == State::Loaded && uses == 0; }
  };
  struct Waiting {
    Id id;
    Slot* slot;
    Waiter waiter;
    Clock::time_point since;
  };
  struct Task {
    enum class Kind : std::uint8_t { None, Open, Load, Unload } kind = Kind::None;
    Slot* slot = nullptr;
  };
  using Lock = std::unique_lock<std::mutex>;
  using Calls = std::vector<std::function<void()>>;

  // All are called with the lock.
  ModelLease lease(Slot& slot, bool request);
  ModelLease begin_use(Slot& slot, KeepAlive keep_alive);
  bool ready(const Slot& slot) const { return slot.state == State::Loaded && !slot.leaving; }
  void settle(Lock& lock);
  void plan(Calls& calls);
  void plan_load(Slot& slot);
  void plan_expiry();
  void fail(const std::function<bool(const Waiting&)>& which, const Failure& failure, Calls& calls);
  [[nodiscard]] std::optional<Clock::time_point> expiry(const Slot& slot) const;
  [[nodiscard]] std::optional<Clock::time_point> next_event() const;
  void do_task(Lock& lock);
  void load(Slot& slot, Lock& lock);
  void load_failed(Slot& slot, const std::string& reason, Lock& lock);
  void unload(Slot& slot, Lock& lock);

  void run();
  void end_use(Slot& slot, bool request);

  const PoolOptions options_;
  const std::size_t standard_;
  Metrics& metrics_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::mutex mutex_;  // guards the members below, and the slots
  std::condition_variable changed_;
  std::vector<Waiting> waiting_;  // in order of arrival
  GaugePart waiting_part_;
  Task task_;  // the thread's next work
  Id last_id_ = 0;
  bool closing_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace cria::serve
