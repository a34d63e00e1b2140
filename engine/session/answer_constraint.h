// Which tokens an answer may go on with: thinking is free, what comes after it keeps to the
// constraint.
#pragma once

#include <optional>

#include "engine/constrain/token_masks.h"
#include "engine/sample/sampler.h"
#include "engine/session/answer_output.h"

namespace cria {

class AnswerConstraint {
 public:
  /// Of options without a constraint: everything may come. Options must outlive it.
  AnswerConstraint(const Model& model, const GenerateOptions& options);

  /// Of the next token; valid until the next call. Empty: any.
  TokenMask mask();
  /// Whether no token is left that could come.
  [[nodiscard]] bool stuck() const { return stuck_; }
  /// A token of the mask was drawn: before the output gets it, and after.
  void drawn(TokenId token, AnswerOutput& output);
  void shown(TokenId token, const AnswerOutput& output);
  /// Whether nothing can follow.
  [[nodiscard]] bool finished() const {
    return run_ && phase_ == Phase::Inside && run_->finished();
  }
  /// The text that must follow, at most so many bytes.
  [[nodiscard]] std::string forced(std::size_t most) {
    return run_ && phase_ == Phase::Inside ? run_->forced(most) : std::string();
  }

 private:
  enum class Phase : std::uint8_t {
    Free,   ///< thinking, or a channel's header
    Begin,  ///< thinking may open, or the answer begin
    Inside,
  };
  TokenMask text_mask();
  void open_masks();
  void add_text_openers(std::string_view text);
  TokenMask checked(TokenMask mask);

  const Tokenizer& tokenizer_;
  const AnswerFormat& format_;
  std::shared_ptr<const TokenTrie> trie_;
  std::optional<TokenMasks::Run> run_;
  bool verbatim_ = false;
  bool free_text_ =
      false;  // text, until a call begins; then the phase says only whether it is thinking
  Phase phase_ = Phase::Inside;
  bool may_open_ = false;        // in Begin
  std::string opening_;          // what is left of a marker that has begun
  std::size_t line_breaks_ = 0;  // in Begin: how many may still come
  std::shared_ptr<const TokenBits> inside_;
  TokenBits bits_;
  bool stuck_ = false;
};

}  // namespace cria
