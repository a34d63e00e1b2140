// Allowed next tokens of an answer: thinking is free, the rest is constrained.
#pragma once

#include <optional>

#include "engine/constrain/token_masks.h"
#include "engine/sample/sampler.h"
#include "engine/session/answer_output.h"

namespace cria {

class AnswerConstraint {
 public:
  /// Without a constraint in the options, all tokens are allowed. Must not outlive the options.
  AnswerConstraint(const Model& model, const GenerateOptions& options);

  /// Allowed next tokens, valid until the next call; empty: all.
  TokenMask mask();
  /// True if the last mask() allowed no token.
  [[nodiscard]] bool stuck() const { return stuck_; }
  /// Take a sampled token of the mask: before the output gets it, and after.
  void drawn(TokenId token, AnswerOutput& output);
  void shown(TokenId token, const AnswerOutput& output);
  /// True if nothing can follow.
  [[nodiscard]] bool finished() const {
    return run_ && phase_ == Phase::Inside && run_->finished();
  }
  /// Text that must follow, at most `most` bytes of it.
  [[nodiscard]] std::string forced(std::size_t most) {
    return run_ && phase_ == Phase::Inside ? run_->forced(most) : std::string();
  }

 private:
  enum class Phase : std::uint8_t {
    Free,    ///< in thinking or a channel header
    Begin,   ///< thinking or the answer may begin
    Inside,  ///< in the constrained answer
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
  bool free_text_ = false;  // text until a tool call begins; phase_ is Free in thinking
  Phase phase_ = Phase::Inside;
  bool may_open_ = false;        // in Begin
  std::string opening_;          // rest of the thinking marker
  std::size_t line_breaks_ = 0;  // in Begin: max line breaks
  std::shared_ptr<const TokenBits> inside_;
  TokenBits bits_;
  bool stuck_ = false;
};

}  // namespace cria
