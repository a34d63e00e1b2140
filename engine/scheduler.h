// Many answers at once on one engine: a public header of engine/, for whoever serves them.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "engine/session.h"

namespace cria {

/// How the hidden states of a text's tokens become one vector.
enum class Pooling : std::uint8_t { Mean, Last };

/// One answer that somebody wants.
struct AnswerRequest {
  std::vector<TokenId> prompt;  ///< all of it, with BOS
  /// The flag `interrupt` is looked at between steps; several requests may share one.
  GenerateOptions options;
  TextSink sink;  ///< called while a step runs; returning false ends the answer, and so does what
                  ///< it throws
  /// Called once, at the end: with the answer, and with the error that ended it, if one did.
  std::function<void(GenerateResult result, const std::optional<Error>& error)> on_end;
  /// Called before on_end with what was thrown, for whoever tells kinds of errors apart; may be
  /// empty.
  std::function<void(const std::exception_ptr& error)> on_error;
  /// No answer: the result has the prompt's embedding, a vector of length 1, and nothing is drawn.
  std::optional<Pooling> embedding;
  std::uint64_t scope = 0;  ///< prompts of one scope share what they begin with
  bool cache_prompt =
      true;  ///< else nothing that is known is used, and what is read is of no use to others
  std::size_t n_ctx =
      0;  ///< tokens that prompt and answer may become; 0, or more than the engine's: the engine's
  /// Called once each, with the seconds since add(): when it leaves the queue, and when its first
  /// token was drawn.
  std::function<void(double seconds)> on_begin, on_first_token;  ///< may be empty
};

/// One of several answers to the same prompt: as the request, with its seed + index (where it has
/// one). A scheduler reads what prompts share once.
AnswerRequest choice(const AnswerRequest& request, std::uint64_t index);

/// What Session::chat() makes of a conversation in a session of n_ctx positions: prompt and
/// options. how has a template. Throws as chat().
AnswerRequest chat_request(const Model& model, std::size_t n_ctx,
                           const std::vector<ChatMessage>& messages, const GenerateOptions& options,
                           const ChatOptions& how);

/// The embeddings of many prompts: [n_prompts][n_embd], each of length 1, whatever is evaluated
/// beside it. Throws Error where one cannot be evaluated.
std::vector<std::vector<float>> embed(Engine& engine, std::span<const std::vector<TokenId>> prompts,
                                      Pooling pooling, std::uint64_t scope = 0);
/// How steps are divided between reading and writing.
struct SchedulerOptions {
  /// Tokens of prompts in a step that decodes too: the more, the sooner prompts are read, and the
  /// longer others wait for their next token. Guesses take what prompts leave of them.
  std::size_t prompt_tokens = 128;
  std::shared_ptr<const Model> draft =
      {};  ///< a smaller model with the same vocabulary, for guesses
};

/// Steps mix the next token of every answer that is being written with pieces of prompts, in
/// rounds; where a batch has no more tokens than there are such answers, these leave some of it to
/// prompts. Answers begin in the order of their arrival, as soon as the engine has a sequence free
/// and room for all that the answer may become: one that has begun is never put back. Each has the
/// bytes that it has alone. One thread at a time.
class Scheduler {
 public:
  using Id = std::uint64_t;  ///< of an answer
  /// The engine outlives it; nobody else uses it while a step runs. Throws Error where the draft
  /// model has another vocabulary, or not enough memory.
  explicit Scheduler(Engine& engine, const SchedulerOptions& options = {});
  ~Scheduler();  ///< what has not ended is dropped without a word
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// An answer that cannot begin (a prompt that does not fit, options out of range) ends with its
  /// Error at the next step.
  Id add(AnswerRequest request);
  /// Ends an answer between steps, or while one calls back, as interrupted, with what has been
  /// written. Nothing happens if it has ended.
  void cancel(Id id);
  /// Drops all answers without a word: what is left to do after a step has thrown.
  void clear() noexcept;
  /// What each step begins with: answers that have been cancelled are told their end, and let go of
  /// their sequences. Between steps.
  void drop_ended();
  /// One pass over the weights. False: there was nothing to do. A pass that `stop` ends changes
  /// nothing.
  bool step(const std::atomic<bool>* stop = nullptr);
  /// Answers that are being read or written, and that wait.
  [[nodiscard]] std::size_t active() const noexcept;
  [[nodiscard]] std::size_t waiting() const noexcept;  ///< in the queue
  /// Of the context, that active answers hold. What is kept for others is not among them.
  [[nodiscard]] std::size_t positions() const noexcept;
  /// How far an active answer has come, in tokens.
  struct Progress {
    std::size_t to_read;  ///< of the prompt; of one that has not begun all, whatever is known of it
    std::size_t drawn;    ///< so far
    std::size_t may_draw;  ///< still, at the most
  };
  [[nodiscard]] std::vector<Progress> progress() const;  ///< of each, in the order of their arrival

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cria
