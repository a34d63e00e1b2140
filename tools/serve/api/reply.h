// The answer to a client of /v1/chat/completions or /v1/completions: what comes of its choices, as
// one body or as a stream of chunks.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/report/answer_json.h"
#include "tools/serve/api/answer_tokens.h"
#include "tools/serve/api/completion_request.h"
#include "tools/serve/api/served_model.h"
#include "tools/serve/http/exchange.h"
#include "tools/serve/service/service.h"

namespace cria::serve {

/// Runs a function soon, on another thread. What it throws fails the exchange.
using Post = std::function<void(std::function<void()>)>;

/// A prompt as the model gets it.
struct Prompt {
  std::vector<TokenId> tokens;
  std::optional<std::string>
      text;  ///< that these were made of; nothing where it need not be told again
};

/// The prompts of a request, and what all answers to them have in common: all but prompt and seed.
struct Prompts {
  AnswerRequest request;  ///< the first choice's, without its prompt
  std::vector<Prompt> all;
};

class Reply : public std::enable_shared_from_this<Reply> {
 public:
  /// The model outlives it. post: long answers are written elsewhere than on the thread that
  /// computes.
  Reply(std::shared_ptr<Exchange> exchange, const ServedModel& model, CompletionRequest request,
        Prompts prompts, Post post, bool keep_texts);

  /// The choices of all prompts; their calls tell this reply, which lives as long as they do.
  Job job();
  /// In place of an answer.
  void fail(const Failure& failure);

 private:
  struct Choice {
    const Prompt& prompt;
    AnswerTokens tokens;
    std::string held{};    // text that waits for its log-probabilities
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
  std::deque<Choice> choices_;  // that have begun
  std::size_t left_;
  bool failed_ = false;
};

}  // namespace cria::serve
