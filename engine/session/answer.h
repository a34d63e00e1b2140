// One answer, as a machine that is stepped from outside: it says which text is to be evaluated, and
// draws the next token from the logits of its end. Who evaluates, with what else in the batch, is
// nothing to it.
#pragma once

#include <chrono>
#include <vector>

#include "engine/sample/sampler.h"
#include "engine/session/answer_constraint.h"
#include "engine/session/answer_output.h"

namespace cria {

class Answer {
 public:
  /// What the text may become.
  struct Limits {
    std::size_t n_ctx;
    bool context_shift;  ///< when full: the oldest half after the kept prefix goes; else the answer
                         ///< ends
  };
  /// Throws Error for options out of range and for a prompt that is empty or does not fit.
  Answer(const Model& model, const Limits& limits, std::span<const TokenId> prompt,
         const GenerateOptions& options, const TextSink& sink);
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// What is to be evaluated: the prompt (or what context shifts leave of it) and what was drawn.
  [[nodiscard]] std::span<const TokenId> text() const { return text_; }
  /// The logits of the text's last token: draws the next, or ends the answer, or both. Values that
  /// are kept of text that context shifts take away are of no use: the common prefix remains.
  void take(std::span<const float> logits);
  /// The logits of a token of the prompt that is not its last, where they are wanted.
  void take_prompt(std::size_t position, std::span<const float> logits);
  [[nodiscard]] bool ended() const { return ended_; }
  /// Tokens that may still be drawn, by the options and the context without a shift.
  [[nodiscard]] std::size_t tokens_left() const;
  void end(StopReason reason);
  /// Appends tokens, at most so many, of the text that the constraint leaves no choice about: a
  /// good draft.
  void draft_forced(std::size_t most, std::vector<TokenId>& draft);

  /// Counts tokens of the prompt that were found, and that were evaluated now; tells the options'
  /// progress.
  void found(std::size_t n);
  void evaluated(std::size_t n);
  /// Of drafts.
  void count_drafts(std::size_t drafted, std::size_t kept);

  [[nodiscard]] std::size_t drawn() const { return result_.tokens.size(); }
  /// How often the context was shifted: only then does text change that was there.
  [[nodiscard]] std::size_t shifts() const { return result_.shifts; }
  [[nodiscard]] const GenerateOptions& options() const { return options_; }
  /// That of the options, up to the first token that the vocabulary has not.
  [[nodiscard]] std::span<const TokenId> expected() const { return expected_; }
  /// After the end. Once.
  GenerateResult result();

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] bool interrupted() const;
  [[nodiscard]] double seconds();
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
  bool drawing_ = false, ended_ = false;
  Clock::time_point since_ = Clock::now();
};

}  // namespace cria
