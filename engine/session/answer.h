// One answer, stepped from outside: it names the text to evaluate, and samples the next token from
// the logits of its end. It does not know who evaluates, nor what else is in the batch.
#pragma once

#include <chrono>
#include <vector>

#include "engine/sample/sampler.h"
#include "engine/session/answer_constraint.h"
#include "engine/session/answer_output.h"

namespace cria {

class Answer {
 public:
  struct Limits {
    std::size_t n_ctx;   ///< max tokens of the text
    bool context_shift;  ///< full context: drop the oldest half after the kept tokens, else end
  };
  /// Throws Error for options out of range, ContextOverflow for a prompt that does not fit.
  Answer(const Model& model, const Limits& limits, std::span<const TokenId> prompt,
         const GenerateOptions& options, const TextSink& sink);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// Text to evaluate: the prompt (or what context shifts leave of it) and the sampled tokens.
  [[nodiscard]] std::span<const TokenId> text() const { return text_; }
  /// Takes the logits of the last token; samples the next one, or ends the answer, or both.
  void take(std::span<const float> logits);
  /// Takes the logits of an earlier token of the prompt, if they are requested.
  void take_prompt(std::size_t position, std::span<const float> logits);
  [[nodiscard]] bool ended() const { return ended_; }
  /// Max tokens still to sample, by the options and the context without a shift.
  [[nodiscard]] std::size_t tokens_left() const;
  void end(StopReason reason);
  /// Appends up to `most` tokens that the constraint leaves no choice about, as a draft.
  void draft_forced(std::size_t most, std::vector<TokenId>& draft);

  void found(std::size_t n);      ///< counts n prompt tokens found in the KV cache
  void evaluated(std::size_t n);  ///< counts n prompt tokens evaluated
  void count_drafts(std::size_t drafted, std::size_t accepted);

  [[nodiscard]] std::size_t drawn() const { return result_.tokens.size(); }  ///< tokens sampled
  /// Number of context shifts; only these change earlier text.
  [[nodiscard]] std::size_t shifts() const { return result_.shifts; }
  [[nodiscard]] const GenerateOptions& options() const { return options_; }
  /// Reference text, up to its first unknown token.
  [[nodiscard]] std::span<const TokenId> expected() const { return expected_; }
  /// Returns the result; call it once, after the end.
  GenerateResult result();

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] bool interrupted() const;
  [[nodiscard]] double seconds();
  void score(std::span<const float> logits);
  void push(TokenId token, std::span<const float> logits);
  void append(TokenId token);
  void shift();
  void end_without_token(TokenMask allowed);

  const GenerateOptions options_;
  const TextSink sink_;
  const Model& model_;
  const Limits limits_;
  const std::span<const TokenId> expected_;
  Sampler sampler_;
  AnswerOutput output_;
  AnswerConstraint constraint_;
  std::vector<TokenId> text_;
  std::size_t keep_ = 0, n_prompt_ = 0;
  GenerateResult result_;
  bool decoding_ = false, ended_ = false;
  Clock::time_point since_ = Clock::now();
};

}  // namespace cria
