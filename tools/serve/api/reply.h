// The answer to a request: what the model writes, in the form of a protocol.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/report/answer.h"
#include "tools/serve/api/answer_tokens.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/http/exchange.h"
#include "tools/serve/models/model_pool.h"
#include "tools/serve/service/service.h"

namespace cria::serve {

/// Queues a function for another thread; an exception fails the exchange.
using Post = std::function<void(std::function<void()>)>;

/// Returns an id that no other answer has, after the prefix.
std::string fresh_id(const char* prefix);

/// A prompt as the model reads it.
struct Prompt {
  std::vector<TokenId> tokens;
  std::optional<std::string> text = {};  ///< source of the tokens, if it must be echoed
  bool cut = false;                      ///< parts of the text were left out
};

/// The prompts of a request, and the request that all answers share except prompt and seed.
struct Prompts {
  AnswerRequest request;  ///< request of the first choice, without a prompt
  std::vector<Prompt> all;
};

/// The parts of a reply.
struct ReplyParts {
  std::shared_ptr<Exchange> exchange;
  ModelLease model;
  CompletionRequest request;
  Prompts prompts;
  Post post;                ///< writes long answers, off the computing thread
  bool keep_texts = false;  ///< for the log
};

/// Returns 24 random letters and digits after a prefix.
std::string fresh_id(const char* prefix);

/// Collects the answers of a job. A form writes them: each part of a stream as it comes, or all at
/// the end.
class Reply : public std::enable_shared_from_this<Reply> {
 public:
  explicit Reply(ReplyParts parts);
  virtual ~Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  /// Returns the job of all choices of all prompts. Its callbacks keep this reply alive.
  Job job();
  /// Answers with an error.
  void fail(const Failure& failure);

 protected:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    std::size_t index;
    const Prompt& prompt;
    AnswerTokens tokens;
    std::string held{};    // text whose log-probabilities are missing
    std::size_t sent = 0;  // bytes of the answer
    std::size_t offset = 0, cached = 0, drawn = 0, calls = 0;
    bool begun = false;
    bool cut_call = false;  // the end cut the last tool call
    Clock::time_point since = Clock::now();
    std::optional<Clock::time_point> first_token{};
    GenerateResult result{};
  };

  // Forms. All but whole() are called on the computing thread, and for streams only.

  /// The request has been queued: the stream's first events.
  virtual void begin_stream() { exchange_->begin_events(); }
  virtual void write_thinking(Choice& choice, std::string_view piece) = 0;
  /// text is not empty. tokens: those that begin in it, with log-probabilities if requested.
  virtual void write_text(Choice& choice, const std::string& text,
                          std::span<const TextToken> tokens) = 0;
  virtual void write_call(Choice& choice, const ToolCallPiece& piece) = 0;
  /// Takes the answer's text as it is drawn, also without a stream; leaves in `piece` the text to
  /// send now. Returns false to end the answer.
  virtual bool take_piece(Choice& /*choice*/, std::string& /*piece*/) { return true; }
  /// The call is complete; its pieces have been written.
  virtual void end_call(Choice&, const ToolCall&) {}
  /// processed: prompt tokens that were found or read.
  virtual void write_progress(Choice&, std::size_t /*processed*/) {}
  /// After the choice's last piece.
  virtual void end_choice(Choice&) {}
  /// After the last choice: the stream's last events.
  virtual void end_stream() = 0;
  /// Returns the body of an answer without a stream.
  virtual std::string whole() = 0;
  /// Ends the stream with an error.
  virtual void fail_stream(const Failure& failure);

  [[nodiscard]] bool wants_logprobs() const { return request_.generate.logprobs.has_value(); }
  [[nodiscard]] tools::AnswerUsage usage() const;
  /// Times of a choice as llama.cpp reports them; also before its end.
  [[nodiscard]] Json timings(const Choice& choice) const;
  /// Returns the tokens of the whole text.
  std::vector<TextToken> all_tokens(Choice& choice);
  [[nodiscard]] const Tokenizer& tokenizer() const { return model_.model->tokenizer(); }

  const std::shared_ptr<Exchange> exchange_;
  const ModelLease lease_;
  const ServedModel& model_;
  const CompletionRequest request_;
  const Prompts prompts_;
  const std::int64_t created_;
  std::deque<Choice> choices_;  // started choices

 private:
  AnswerRequest answer(std::size_t index);
  bool on_text(Choice& choice, std::string piece);
  void on_thinking(Choice& choice, std::string_view piece);
  void on_call(Choice& choice, const ToolCallPiece& piece);
  void on_token(Choice& choice, const TokenLogprobs& token);
  void on_progress(Choice& choice, std::size_t done, std::size_t total);
  void on_end(Choice& choice, GenerateResult result);
  void on_cancelled(std::size_t index, GenerateResult result);
  void send_text(Choice& choice, const std::string& text);
  void record(const tools::AnswerUsage& all);

  const Post post_;
  const bool keep_texts_;
  std::size_t left_;
  bool failed_ = false;
};

}  // namespace cria::serve
