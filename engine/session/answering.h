// An answer on its sequence, pass by pass: what it puts into a batch and what it takes from it.
#pragma once

#include "engine/engine.h"
#include "engine/session/answer.h"
#include "engine/session/ngram_draft.h"

namespace cria {

class Answering {
 public:
  /// The answer begins on what the sequence holds and the engine has kept of its prompt. every_row:
  /// something is wanted of every token of the prompt (as by the option prompt_logprobs), so that
  /// all are evaluated.
  Answering(Sequence& sequence, Answer& answer, bool every_row = false)
      : sequence_(sequence),
        answer_(answer),
        every_row_(every_row || answer.options().prompt_logprobs.has_value()) {
    added_.reserve(kMaxDraft + 1);
  }

  /// Tokens of the text that are not evaluated. The sequence lets go of what is not of the text.
  [[nodiscard]] std::size_t missing();
  /// Whether all of the prompt is evaluated, whatever is known of it.
  [[nodiscard]] bool reads_all() const { return every_row_; }
  [[nodiscard]] bool begun() const { return begun_; }
  /// Whether the prompt has been read.
  [[nodiscard]] bool decoding() const { return decoding_; }
  /// Adds at most `most` of the missing tokens; behind the last a draft, of which logits are wanted
  /// too. Returns how many tokens it has added. Throws Error as Batch::add().
  std::size_t add_to(Batch& batch, std::size_t most, std::span<const TokenId> draft = {});
  /// After the pass: counts what was read.
  void passed();

  /// Rows of the batch that are its own: [first, first + count).
  [[nodiscard]] std::size_t first_row() const { return first_row_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// The logits of one of its rows, in ascending order. A row behind a draft token that was not
  /// drawn is not looked at.
  void take(std::size_t row, std::span<const float> logits);
  [[nodiscard]] bool looks_at(std::size_t row) const {
    return taking_ && row == first_row_ + looked_;
  }
  /// The position of the next row that it looks at.
  [[nodiscard]] std::size_t next_position() const {
    return known_ + added_.size() - rows_ + looked_;
  }
  /// Of the last pass: how many of the draft's tokens were drawn.
  [[nodiscard]] std::size_t kept() const { return taken_ == 0 ? 0 : taken_ - 1; }

  /// Brings the sequence to the text once the answer has ended.
  void finish();

 private:
  Sequence& sequence_;
  Answer& answer_;
  const bool every_row_;
  std::vector<TokenId> added_;               // in this pass: of the text, then the draft
  std::size_t of_prompt_ = 0, of_text_ = 0;  // tokens of this pass
  std::size_t known_ = 0, last_ = 0;  // positions before the pass, and of the text's last token
  std::size_t agreed_ = 0,
              shifts_ = 0;  // tokens of the text that the sequence holds, where none was dropped
  std::size_t first_row_ = 0, rows_ = 0;  // of the batch
  std::size_t looked_ = 0,
              taken_ = 0;  // rows: all that were looked at; those of which a token was drawn
  bool begun_ = false, decoding_ = false, taking_ = false;
};

}  // namespace cria
