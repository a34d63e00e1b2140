// Continuous batching: many answers at once on one engine.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "engine/session.h"
#include "engine/vectors.h"

namespace cria {

class Transcript;

/// A requested answer.
struct AnswerRequest {
  std::vector<TokenId> prompt;  ///< complete, with BOS
  GenerateOptions options;      ///< `interrupt` is read between steps; requests may share one
  /// Called while a step runs. Returning false or throwing ends the answer.
  TextSink sink;
  /// Called once, at the end, with the answer and the error that ended it, if any.
  std::function<void(GenerateResult result, const std::optional<Error>& error)> on_end;
  /// Called before on_end with the exception that ended the answer; may be empty.
  std::function<void(const std::exception_ptr& error)> on_error;
  /// Requests the prompt's vector instead of an answer, as embed() returns it.
  std::optional<Pooling> embedding;
  std::uint64_t scope = 0;           ///< prefix-cache scope
  std::vector<float> adapters = {};  ///< scales of adapters, as for Sequence
  bool cache_prompt = true;          ///< use the prefix cache and add this prompt to it
  std::size_t n_ctx = 0;             ///< max tokens of prompt and answer; 0: the engine's n_ctx
  /// Called once each, with the seconds since add(): when the answer leaves the queue, and when its
  /// first token is sampled. May be empty.
  std::function<void(double seconds)> on_begin;
  std::function<void(double seconds)> on_first_token;  ///< see on_begin
  /// Sequence to answer on: it begins at once and keeps the text. Null: a new one.
  Sequence* sequence = nullptr;
  std::size_t dropped = 0;  ///< GenerateResult::dropped
};

/// Returns one of several answers to the same prompt: the request with seed + index, if it has a
/// seed. A scheduler evaluates the common prefix once.
AnswerRequest choice(const AnswerRequest& request, std::uint64_t index);

/// Returns prompt and options that Session::chat() makes of a conversation in a context of n_ctx
/// tokens. how must have a template. transcript: tokens of earlier answers, or null. Throws as
/// chat().
AnswerRequest chat_request(const Model& model, std::size_t n_ctx,
                           const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                           const ChatOptions& how, Transcript* transcript = nullptr,
                           bool context_shift = false);

/// Options of a scheduler.
struct SchedulerOptions {
  /// Prefill tokens per step while others decode. More: earlier first tokens, slower decoding.
  /// Draft tokens use what prefill leaves.
  std::size_t prompt_tokens = 128;
};

/// Each step decodes one token of every answer and prefills a chunk of prompts, in rounds. If a
/// batch cannot hold a token of every answer, some of it is left to prompts. Answers begin in order
/// of arrival, once the engine has a sequence and pages for all that they may become; none is ever
/// evicted. An answer's bytes do not depend on the others. Used by one thread at a time.
class Scheduler {
 public:
  using Id = std::uint64_t;  ///< names an answer
  /// Must not outlive the engine, which other threads must not use while a step runs.
  explicit Scheduler(Engine& engine, const SchedulerOptions& options = {});
  ~Scheduler();  ///< discards answers without callbacks
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues a request. One that cannot begin (prompt too long, option out of range) ends with an
  /// Error in the next step.
  Id add(AnswerRequest request);
  /// Ends an answer as interrupted, with the text so far; between steps or within a callback.
  void cancel(Id id);
  /// Discards all answers without callbacks; call it after step() throws.
  void clear() noexcept;
  /// Ends interrupted answers and frees their sequences, as each step does first. Between steps.
  void drop_ended();
  /// One pass over the weights. Returns false if there was nothing to do. `stop` ends the pass
  /// without changing anything.
  bool step(const std::atomic<bool>* stop = nullptr);
  [[nodiscard]] std::size_t active() const noexcept;   ///< answers in prefill or decode
  [[nodiscard]] std::size_t waiting() const noexcept;  ///< queued answers
  /// KV positions of active answers, without the prefix cache.
  [[nodiscard]] std::size_t positions() const noexcept;
  /// Progress of an active answer, in tokens.
  struct Progress {
    std::size_t to_read;   ///< prompt tokens left; before it begins, all of them
    std::size_t drawn;     ///< sampled so far
    std::size_t may_draw;  ///< max tokens still to sample
  };
  [[nodiscard]] std::vector<Progress> progress() const;  ///< in order of arrival

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cria
