// Many answers at once on one engine: a public header of engine/, for whoever serves them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "engine/session.h"

namespace cria {

/// One answer that somebody wants.
struct AnswerRequest {
  std::vector<TokenId> prompt;
  /// The flag `interrupt` is looked at between steps; several requests may share one.
  GenerateOptions options;
  TextSink sink;  ///< called while a step runs; returning false ends the answer
  /// Called once, at the end: with the answer, and with the error that ended it, if one did.
  std::function<void(GenerateResult result, const std::optional<Error>& error)> on_end;
  std::uint64_t scope = 0;  ///< prompts of one scope share what they begin with
  std::size_t n_ctx =
      0;  ///< tokens that prompt and answer may become; 0, or more than the engine's: the engine's
};

/// What Session::chat() makes of a conversation in a session of n_ctx positions: prompt and options. how has a template.
/// Throws as chat().
AnswerRequest chat_request(const Model& model, std::size_t n_ctx, const std::vector<ChatMessage>& messages,
                           const GenerateOptions& options, const ChatOptions& how);

struct SchedulerOptions {
  /// Tokens of prompts in a step that decodes too: the more, the sooner prompts are read, and the longer others wait
  /// for their next token.
  std::size_t prompt_tokens = 128;
};

/// Steps mix the next token of every answer that is being written with pieces of prompts, in rounds. Answers begin in
/// the order of their arrival, as soon as the engine has a sequence free and room for all that the answer may become:
/// one that has begun is never put back. Each has the bytes that it has alone. One thread at a time.
class Scheduler {
 public:
  using Id = std::uint64_t;
  /// The engine outlives it; nobody else uses it meanwhile.
  explicit Scheduler(Engine& engine, const SchedulerOptions& options = {});
  ~Scheduler();  ///< what has not ended is dropped without a word
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// An answer that cannot begin (a prompt that does not fit, options out of range) ends with its Error at the next
  /// step.
  Id add(AnswerRequest request);
  /// Ends an answer between steps, as interrupted, with what has been written. Nothing happens if it has ended.
  void cancel(Id id);
  /// One pass over the weights. False: there was nothing to do. A pass that `stop` ends changes nothing.
  bool step(const std::atomic<bool>* stop = nullptr);
  /// Answers that are being read or written, and that wait.
  [[nodiscard]] std::size_t active() const noexcept;
  [[nodiscard]] std::size_t waiting() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cria
