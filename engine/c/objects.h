// Objects behind the handles of the C interface. Several threads may use each of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/c/call.h"
#include "engine/constrain/constraint.h"
#include "engine/scheduler.h"
#include "tokenizer/chat/chat_template.h"

namespace cria::c_api {

struct ModelObject {
  static constexpr HandleKind kKind = HandleKind::Model;
  static constexpr const char* kName = "model";
  explicit ModelObject(std::shared_ptr<const Model> m) : model(std::move(m)) {}
  /// Parses the template on first use. Throws Error.
  std::shared_ptr<const ChatTemplate> chat_template();

  const std::shared_ptr<const Model> model;

 private:
  std::mutex mutex_;
  std::shared_ptr<const ChatTemplate> template_;
};

/// Converts messages of the caller.
std::vector<ChatMessage> conversation(const cria_message* messages, std::size_t n);

struct SamplerObject {
  static constexpr HandleKind kKind = HandleKind::Sampler;
  static constexpr const char* kName = "sampler";
  SamplerObject(std::size_t n, SamplerOptions o) : n_vocab(n), options_(std::move(o)) {}
  [[nodiscard]] SamplerOptions options() const;
  /// Applies change(options), or nothing if the result is out of range.
  void change(const std::function<void(SamplerOptions& options)>& change);

  const std::size_t n_vocab;

 private:
  mutable std::mutex mutex_;
  SamplerOptions options_;
};
/// Options that the model's file recommends, else the defaults.
SamplerOptions default_sampler(const Model& model);

struct ConstraintObject {
  static constexpr HandleKind kKind = HandleKind::Constraint;
  static constexpr const char* kName = "constraint";
  std::shared_ptr<const Constraint> constraint;
};

/// Output of an answer: written by the thread that steps, read by the thread that waits for it.
class AnswerBuffer {
 public:
  struct Piece {
    AnswerPart part{};
    std::string text;
  };
  /// Callbacks of the request.
  void add(AnswerPart part, std::string_view text);
  void end(GenerateResult result);
  /// Records the exception that ended the answer; called before end().
  void fail(const std::exception_ptr& error);

  /// Takes all available text of one part.
  std::optional<Piece> take();
  /// True if take() has text or the answer has ended.
  [[nodiscard]] bool has_news() const;
  [[nodiscard]] bool ended() const;
  /// Valid after the end. Throws the exception that ended the answer.
  [[nodiscard]] const GenerateResult& result() const;

  std::atomic<bool> interrupt = false;
  Scheduler::Id id = 0;  // set by the engine

 private:
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;  // adjacent ones are of different parts
  bool ended_ = false;
  std::exception_ptr error_;
  GenerateResult result_;
};

class EngineObject {
 public:
  static constexpr HandleKind kKind = HandleKind::Engine;
  static constexpr const char* kName = "engine";
  EngineObject(std::shared_ptr<ModelObject> of, const EngineOptions& options);

  /// The right to compute on the engine: one thread at a time, first come, first served. Not
  /// recursive.
  class Turn {
   public:
    explicit Turn(EngineObject& engine);
    /// Waits for the turn, or without one until enough() is true. for_answers: all threads that
    /// step for answers share one place in the queue, since a step serves them all.
    Turn(EngineObject& engine, const std::function<bool()>& enough, bool for_answers);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return mine_; }

   private:
    EngineObject& engine_;
    bool mine_;
  };

  /// Queues an answer; does not wait for a turn.
  void begin(AnswerRequest request, const std::shared_ptr<AnswerBuffer>& writing);
  /// Runs one pass for the answers; returns false if there was nothing to do. Within a turn.
  bool step();
  /// Evaluates a batch of other tokens. Returns false if it was interrupted for another caller's
  /// answer; nothing was evaluated then. Throws Failure if cancels() has changed. Within a turn.
  bool forward(Batch& batch, std::uint64_t cancels);
  /// While it lives, evaluations outside of step() and forward() can be interrupted, too. Within a
  /// turn.
  [[nodiscard]] StopOn stopped_by_cancels() { return {engine, &stop_}; }
  /// Throws Failure if cancels() has changed.
  void check_cancels(std::uint64_t cancels) const;
  /// Calls f() within a turn once `sequences` and pages() more are free. Steps for the answers
  /// until then. Throws Failure if the engine's work is cancelled.
  void with_free(std::size_t sequences, const std::function<std::size_t()>& pages,
                 const std::function<void()>& f);
  /// Step until an answer has news, or has ended.
  void write(const AnswerBuffer& writing) {
    step_until([&] { return writing.has_news(); });
  }
  void finish(const AnswerBuffer& writing) {
    step_until([&] { return writing.ended(); });
  }
  /// Ends an answer, at once or with the current turn. interrupting: also the current pass.
  void cancel(AnswerBuffer& writing, bool interrupting);
  /// Ends all answers, and calls that check cancels().
  void cancel_all();
  /// Number of cancel_all() calls.
  [[nodiscard]] std::uint64_t cancels() const { return cancels_; }

  const std::shared_ptr<ModelObject> model;
  Engine engine;  ///< within a turn

 private:
  /// Place in the queue for turns. An intrusive list, since destructors take turns and must not
  /// allocate.
  struct Place {
    std::size_t threads = 0;
    Place* next = nullptr;
  };
  void append(Place& place);
  void remove(const Place& place);
  bool wait_for_turn(Place& place, const std::function<bool()>& enough);
  void end_turn(std::unique_lock<std::mutex>& lock);
  void cancelled(std::unique_lock<std::mutex>& lock, bool interrupting);
  void take_new();
  void cancel_interrupted();
  void forget_ended();
  void step_until(const std::function<bool()>& enough);

  Scheduler scheduler_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool cancelled_ = false;  // answers that the scheduler has yet to end
  Place* first_place_ = nullptr;
  Place answers_place_;  // shared by all threads that step
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> cancels_ = 0;
  std::vector<std::pair<AnswerRequest, std::shared_ptr<AnswerBuffer>>>
      begun_;                                        // since the last step
  std::vector<std::shared_ptr<AnswerBuffer>> live_;  // in the scheduler
};

struct SequenceObject {
  static constexpr HandleKind kKind = HandleKind::Sequence;
  static constexpr const char* kName = "sequence";
  SequenceObject(std::shared_ptr<EngineObject> of, std::uint64_t scope);
  /// Makes a sequence for a call of `tokens` tokens. Steps for the answers until a sequence and
  /// pages are free. Throws Failure if the engine's work is cancelled.
  static std::shared_ptr<SequenceObject> for_call(const std::shared_ptr<EngineObject>& of,
                                                  std::size_t tokens);
  SequenceObject(std::shared_ptr<EngineObject> of, Sequence&& s)
      : engine(std::move(of)), sequence(std::move(s)) {}
  ~SequenceObject();

  const std::shared_ptr<EngineObject> engine;
  std::optional<Sequence> sequence;  ///< within a turn
};

struct AnswerObject {
  static constexpr HandleKind kKind = HandleKind::Answer;
  static constexpr const char* kName = "answer";
  explicit AnswerObject(std::shared_ptr<EngineObject> of) : engine(std::move(of)) {}
  ~AnswerObject() { engine->cancel(*writing, false); }

  const std::shared_ptr<EngineObject> engine;
  const std::shared_ptr<AnswerBuffer> writing = std::make_shared<AnswerBuffer>();

  std::mutex mutex;  // guards the members below, to which callers have pointers
  AnswerBuffer::Piece piece;
  std::vector<cria_tool_call> calls;
  std::vector<cria_token_logprob> logprobs, top_logprobs;
};

}  // namespace cria::c_api
