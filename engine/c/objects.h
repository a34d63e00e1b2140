// What the handles of the C interface stand for. All may be used by several threads.
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

namespace cria::c_api {

struct ModelObject {
  static constexpr HandleKind kKind = HandleKind::Model;
  static constexpr const char* kName = "model";
  explicit ModelObject(std::shared_ptr<const Model> m) : model(std::move(m)) {}
  /// Parsed when first asked for. Throws Error.
  std::shared_ptr<const ChatTemplate> chat_template();

  const std::shared_ptr<const Model> model;

 private:
  std::mutex mutex_;
  std::shared_ptr<const ChatTemplate> template_;
};

struct SamplerObject {
  static constexpr HandleKind kKind = HandleKind::Sampler;
  static constexpr const char* kName = "sampler";
  SamplerObject(std::size_t n, SamplerOptions o) : n_vocab(n), options_(std::move(o)) {}
  [[nodiscard]] SamplerOptions options() const;
  /// Applies what change(options) does, or nothing if the result is out of range.
  void change(const std::function<void(SamplerOptions& options)>& change);

  const std::size_t n_vocab;

 private:
  mutable std::mutex mutex_;
  SamplerOptions options_;
};
/// Those that a model's file names, else the usual ones.
SamplerOptions default_sampler(const Model& model);

struct ConstraintObject {
  static constexpr HandleKind kKind = HandleKind::Constraint;
  static constexpr const char* kName = "constraint";
  std::shared_ptr<const Constraint> constraint;
};

/// An answer as the engine's steps leave it: written by whoever steps, read by whoever waits for
/// it.
class Writing {
 public:
  struct Piece {
    AnswerPart part{};
    std::string text;
  };
  /// For the request's callbacks.
  void add(AnswerPart part, std::string_view text);
  void end(GenerateResult result);
  /// Before end(): what was thrown.
  void fail(const std::exception_ptr& error);

  /// All text of one part that there is.
  std::optional<Piece> take();
  /// Whether take() has some, or it is at its end.
  [[nodiscard]] bool has_news() const;
  [[nodiscard]] bool ended() const;
  /// After the end. Throws what ended it.
  [[nodiscard]] const GenerateResult& result() const;

  std::atomic<bool> interrupt = false;
  Scheduler::Id id = 0;  // for the engine

 private:
  mutable std::mutex mutex_;
  std::vector<Piece> pieces_;  // neighbours are of different parts
  bool ended_ = false;
  std::exception_ptr error_;
  GenerateResult result_;
};

class EngineObject {
 public:
  static constexpr HandleKind kKind = HandleKind::Engine;
  static constexpr const char* kName = "engine";
  EngineObject(std::shared_ptr<ModelObject> of, const EngineOptions& options);

  /// The right to compute on the engine; one thread has it at a time, and must not ask for it
  /// again. Who asked first has it first.
  class Turn {
   public:
    explicit Turn(EngineObject& engine);
    /// Waits for that, or until enough() is true; then there may be no turn. for_answers: all
    /// threads that want a step for their answers have one place in the order together, since it is
    /// for all of them.
    Turn(EngineObject& engine, const std::function<bool()>& enough, bool for_answers);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return mine_; }

   private:
    EngineObject& engine_;
    bool mine_;
  };

  /// Waits for no turn.
  void begin(AnswerRequest request, const std::shared_ptr<Writing>& writing);
  /// One pass for the answers; false: there was nothing to do. Within a turn.
  bool step();
  /// One pass of tokens that are no answer's. False: it was broken off for the sake of another
  /// caller's answer, and nothing has been evaluated. Throws Failure where cancels() is no longer
  /// what it was. Within a turn.
  bool forward(Batch& batch, std::uint64_t cancels);
  /// While it lives, also what is evaluated outside of step() and forward() ends where others break
  /// off. Within a turn.
  [[nodiscard]] StopOn stopped_by_cancels() { return {engine, &stop_}; }
  /// Throws Failure where cancels() is no longer what it was.
  void check_cancels(std::uint64_t cancels) const;
  /// f() within a turn in which answers and other calls leave room for so many sequences and
  /// pages() more: it steps for the answers until then. Throws Failure where the engine's work is
  /// cancelled.
  void with_room(std::size_t sequences, const std::function<std::size_t()>& pages,
                 const std::function<void()>& f);
  /// Steps until there is news of an answer; until it is at its end.
  void write(const Writing& writing) {
    step_until([&] { return writing.has_news(); });
  }
  void finish(const Writing& writing) {
    step_until([&] { return writing.ended(); });
  }
  /// Ends an answer, at once or with the turn that somebody has; breaking off: the pass that is
  /// being computed, too.
  void cancel(Writing& writing, bool breaking_off);
  /// All answers likewise, and what asks for cancels().
  void cancel_all();
  /// Grows with each cancel_all().
  [[nodiscard]] std::uint64_t cancels() const { return cancels_; }

  const std::shared_ptr<ModelObject> model;
  Engine engine;  ///< within a turn

 private:
  /// In the order of those who wait for a turn. A list without memory of its own: turns are taken
  /// in destructors, too.
  struct Place {
    std::size_t threads = 0;
    Place* next = nullptr;
  };
  void append(Place& place);
  void remove(const Place& place);
  bool wait_for_turn(Place& place, const std::function<bool()>& enough);
  void end_turn(std::unique_lock<std::mutex>& lock);
  void cancelled(std::unique_lock<std::mutex>& lock, bool breaking_off);
  void take_new();
  void cancel_interrupted();
  void forget_ended();
  void step_until(const std::function<bool()>& enough);

  Scheduler scheduler_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool cancelled_ = false;  // some answers, of which the scheduler has not been told
  Place* first_place_ = nullptr;
  Place answers_place_;  // of all threads that want a step
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> cancels_ = 0;
  std::vector<std::pair<AnswerRequest, std::shared_ptr<Writing>>> begun_;  // since the last step
  std::vector<std::shared_ptr<Writing>> live_;                             // that the scheduler has
};

struct SequenceObject {
  static constexpr HandleKind kKind = HandleKind::Sequence;
  static constexpr const char* kName = "sequence";
  SequenceObject(std::shared_ptr<EngineObject> of, std::uint64_t scope);
  /// One that a call has while it runs, for so many tokens. Where answers and other calls have all
  /// sequences or pages, it waits for them, and steps for the answers. Throws Failure where the
  /// engine's work is cancelled.
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
  const std::shared_ptr<Writing> writing = std::make_shared<Writing>();

  std::mutex mutex;  // of what callers have pointers to
  Writing::Piece piece;
  std::vector<cria_tool_call> calls;
  std::vector<cria_token_logprob> logprobs, top_logprobs;
};

}  // namespace cria::c_api
