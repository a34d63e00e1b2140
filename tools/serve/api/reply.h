// The answer of /v1/chat/completions or /v1/completions: one body or a stream of chunks.
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
#include "tools/serve/api/served_model.h"
#include "tools/serve/http/exchange.h"
#include "tools/serve/service/service.h"

namespace cria::serve {

/// Queues a function for another thread; an exception fails the exchange.
using Post = std::function<void(std::function<void()>)>;

/// Returns an id that no other answer has, after the prefix.
std::string fresh_id(const char* prefix);

/// A prompt as the model reads it.
struct Prompt {
  std::vector<TokenId> tokens;
  std::optional<std::string> text;  ///< source of the tokens, if it must be echoed
};

/// The prompts of a request, and the request that all answers share except prompt and seed.
struct Prompts {
  AnswerRequest request;  ///< request of the first choice, without a prompt
  std::vector<Prompt> all;
};

class Reply : public std::enable_shared_from_this<Reply> {
 public:
  /// The model must outlive this. Long answers are written by post, off the computing thread.
  Reply(std::shared_ptr<Exchange> exchange, const ServedModel& model, CompletionRequest request,
        Prompts prompts, Post post, bool keep_texts);

  /// Returns the job of all choices of all prompts. Its callbacks keep this reply alive.
  Job job();
  /// Answers with an error.
  void fail(const Failure& failure);

 private:
  struct Choice {
    const Prompt& prompt;
    AnswerTokens tokens;
    std::string held{};    // text whose log-probabilities are missing
    std::size_t sent = 0;  // bytes of the answer
    std::size_t calls = 0, offset = 0;
    bool begun = false;
    GenerateResult result{};
  };

  AnswerRequest answer(std::size_t index);
  void on_text(std::size_t index, std::string_view piece);
  void on_thinking(std::size_t index, std::string_view piece);
  void on_call(std::size_t index, const ToolCall& call);
  void on_token(std::size_t index, const TokenLogprobs& token);
  void on_end(std::size_t index, GenerateResult result);
  void on_cancelled(std::size_t index, GenerateResult result);

  void send_text(std::size_t index, std::string text);
  void send_rest(std::size_t index);
  void begin_choice(std::size_t index);
  void send(RequestJson choice);
  void send_delta(std::size_t index, RequestJson delta);
  void end_stream();
  void answer_whole();
  void record(const tools::AnswerUsage& all);

  [[nodiscard]] bool wants_logprobs() const { return request_.generate.logprobs.has_value(); }
  [[nodiscard]] RequestJson head(bool chunk) const;
  [[nodiscard]] RequestJson whole_choice(std::size_t index);
  [[nodiscard]] RequestJson logprobs(Choice& choice, std::span<const TextToken> tokens) const;
  [[nodiscard]] std::vector<TextToken> echo_tokens(Choice& choice) const;
  [[nodiscard]] tools::AnswerUsage usage() const;
  [[nodiscard]] const Tokenizer& tokenizer() const { return model_.model->tokenizer(); }

  const std::shared_ptr<Exchange> exchange_;
  const ServedModel& model_;
  const CompletionRequest request_;
  const Prompts prompts_;
  const Post post_;
  const bool keep_texts_;
  const std::string id_;
  const std::int64_t created_;
  std::deque<Choice> choices_;  // started choices
  std::size_t left_;
  bool failed_ = false;
};

}  // namespace cria::serve
