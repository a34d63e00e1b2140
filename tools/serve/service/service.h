// Estimates when a slot will be free, for clients that find the queue full.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/scheduler.h"
#include "tools/serve/metrics.h"

namespace cria::serve {

class SlotWait {
 public:
  /// prompt_tokens: prefill tokens per step while other answers decode.
  explicit SlotWait(std::size_t prompt_tokens) : prompt_tokens_(prompt_tokens) {}

  /// Records the seconds of a step.
  void stepped(double seconds);
  /// Records an answer of `tokens` tokens that was not cancelled.
  void ended(std::size_t tokens);

  /// Whole seconds, 1 to kMost, until one more than `earlier` of the running answers have ended. A
  /// running answer is expected to need the average number of tokens, or twice what it has.
  [[nodiscard]] int seconds(std::span<const Scheduler::Progress> running,
                            std::size_t earlier) const;

  /// OpenAI's clients wait for a minute at the most, and answers may end sooner than is known.
  static constexpr int kMost = 30;

 private:
  [[nodiscard]] double steps_left(const Scheduler::Progress& answer) const;

  const std::size_t prompt_tokens_;
  std::optional<double> step_seconds_, tokens_;  // moving averages
};

struct ServiceOptions {
  EngineOptions engine;  ///< n_ctx and sequences: the slots
  SchedulerOptions scheduler;
  std::size_t queue = 64;  ///< jobs that may wait, of all services with the same metrics
  /// Time limit for waiting and again for running; 0: none.
  std::chrono::milliseconds request_timeout{600'000};
};

/// Why a job came to no end of its own.
struct Failure {
  int status;
  std::string code, message;
  int retry_after = 0;  ///< seconds after which another attempt may succeed; 0: not known
};

Failure shutting_down();
/// retry_after: in seconds.
Failure queue_full(std::size_t waiting, int retry_after);
/// begun: the answer took too long; else the wait did.
Failure too_late(bool begun, std::chrono::milliseconds limit);

/// The answers that one request asks for. Its calls are made by the thread that computes, and
/// return at once.
struct Job {
  std::size_t count = 0;  ///< answers
  /// Makes one of them: from the first to the last, each once, when a slot is free for it. What it
  /// throws, and an answer that ends with an error, is a failure of the job.
  std::function<AnswerRequest(std::size_t index)> answer;
  /// It has been queued, and nothing else has been called yet. May be empty.
  std::function<void()> on_accepted;
  /// A step is about to work on it for the first time.
  std::function<void()> on_begin;
  /// In place of the ends of answers that have not ended. Sinks may still be called after it.
  std::function<void(const Failure& failure)> on_failure;
  /// In place of the end of an answer that cancel() has ended after it began: what there was of it.
  /// May be empty.
  std::function<void(std::size_t index, GenerateResult result)> on_cancelled;
};

class Service {
 public:
  using Id = std::uint64_t;

  /// Allocates what the slots need; throws Error if memory is too small. The metrics must outlive
  /// it.
  Service(const Model& model, const ServiceOptions& options, Metrics& metrics);
  ~Service();  ///< stop()
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // From any thread:

  /// Throws Failure "queue_full" or "shutting_down"; no call of the job is made then.
  Id submit(Job job);
  /// Ends a job within a step; its calls may still come until then. Nothing happens if it has
  /// ended.
  void cancel(Id id);
  /// Jobs that wait fail at once, those that run after so long. submit() fails from now on.
  void shut_down(std::chrono::milliseconds grace);
  /// Returns after shut_down(), when no job is left.
  void wait_for_end();
  /// Drops all that there is and computes no more; no call of a job is made after it.
  void stop();

  [[nodiscard]] const Model& model() const { return engine_.model(); }
  [[nodiscard]] std::size_t n_ctx() const { return engine_.options().n_ctx; }
  [[nodiscard]] std::size_t slots() const { return engine_.options().sequences; }
  /// Returns the tokens sampled so far in each busy slot.
  [[nodiscard]] std::vector<std::size_t> busy_slots() const;
  /// "4 slots of 512 tokens, 20 MiB of keys and values, up to 512 MiB of cached prompts"
  [[nodiscard]] std::string summary() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Active;
  using ActivePointer = std::shared_ptr<Active>;
  using AnswerEnd = decltype(AnswerRequest::on_end);

  void run();
  bool take_orders();
  void apply_cancels(const std::vector<Id>& ids);
  void end_late();
  void feed();
  void begin_answer(const ActivePointer& job);
  void step();
  void answer_ended(const ActivePointer& job, std::size_t index, GenerateResult&& result,
                    const std::optional<Error>& error, const AnswerEnd& told);
  void drop(Active& job);
  void fail(Active& job, const Failure& failure);
  void forget_ended();
  void publish();
  [[nodiscard]] int seconds_to_a_place() const;

  const ServiceOptions options_;
  Metrics& metrics_;
  Engine engine_;
  std::unique_ptr<Scheduler> scheduler_;  // used by the thread only, like the jobs
  std::vector<ActivePointer> jobs_;       // in the order of their arrival
  SlotWait slot_wait_;
  GaugePart running_part_, positions_part_, positions_used_part_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<ActivePointer> inbox_;
  std::vector<Id> cancels_;
  std::size_t waiting_ = 0;
  std::vector<std::size_t> drawn_;  // by busy slot
  GaugePart waiting_part_;
  int retry_after_ = 1;
  Id last_id_ = 0;
  bool closing_ = false, abandoned_ = false, over_ = false;
  Clock::time_point end_of_grace_;

  std::thread thread_;
};

}  // namespace cria::serve
