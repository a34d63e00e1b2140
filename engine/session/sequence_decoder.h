// Evaluates the text of an answer on a sequence, pass by pass, and hands its logits to the answer.
#pragma once

#include "engine/engine.h"
#include "engine/session/answer.h"
#include "engine/session/draft_control.h"

namespace cria {

class SequenceDecoder {
 public:
  /// Begins on what the sequence holds or the engine knows of the prompt. every_row: evaluate all
  /// tokens of the prompt, as for the option prompt_logprobs. hidden: request the hidden states of
  /// all tokens, but logits only where an answer needs them.
  SequenceDecoder(Sequence& sequence, Answer& answer, bool every_row = false, bool hidden = false)
      : sequence_(sequence),
        answer_(answer),
        hidden_(hidden),
        every_row_(every_row || answer.options().prompt_logprobs.has_value()) {
    added_.reserve(kMaxDraft + 1);
  }

  /// Number of tokens of the text to evaluate. Drops other text from the sequence.
  [[nodiscard]] std::size_t missing();
  [[nodiscard]] bool reads_all() const { return every_row_; }
  [[nodiscard]] bool begun() const { return begun_; }
  /// True if only the last token is missing: the prompt, or the text left by a context shift, has
  /// been evaluated.
  [[nodiscard]] bool decoding() const { return decoding_; }
  /// Adds up to `most` missing tokens to the batch, and after the last one a draft whose logits are
  /// requested too. Throws Error as Batch::add().
  void add_to(Batch& batch, std::size_t most, std::span<const TokenId> draft = {});
  /// Counts what was evaluated; call it after the pass.
  void passed();

  /// Its rows of the batch: [first_row, end_row).
  [[nodiscard]] std::size_t first_row() const { return first_row_; }
  [[nodiscard]] std::size_t end_row() const { return first_row_ + rows_; }
  /// The first of them whose logits are needed.
  [[nodiscard]] std::size_t first_logits() const { return first_row_ + skipped_; }
  [[nodiscard]] bool requests_hidden() const { return hidden_; }
  /// Position of its first row.
  [[nodiscard]] std::size_t first_position() const { return known_ + added_.size() - rows_; }
  /// Its rows whose tokens have become part of the text; 0 if a context shift has changed it.
  [[nodiscard]] std::size_t kept_rows() const;
  /// Takes the logits of one of its rows, in order. Rows after a rejected draft token are skipped.
  void take(std::size_t row, std::span<const float> logits);
  [[nodiscard]] bool needs(std::size_t row) const { return taking_ && row == first_row_ + taken_; }
  /// Position of the next row that it takes.
  [[nodiscard]] std::size_t next_position() const { return first_position() + taken_; }
  /// Draft tokens accepted in the last pass.
  [[nodiscard]] std::size_t accepted() const { return sampled_ == 0 ? 0 : sampled_ - 1; }

  /// Cuts the sequence to the text, once the answer has ended.
  void finish();

 private:
  Sequence& sequence_;
  Answer& answer_;
  const bool hidden_, every_row_;
  std::vector<TokenId> added_;               // in this pass: text, then draft
  std::size_t of_prompt_ = 0, of_text_ = 0;  // tokens of this pass
  std::size_t known_ = 0, last_ = 0;      // positions before the pass; position of the last token
  std::size_t agreed_ = 0, shifts_ = 0;   // text tokens in the sequence; shifts up to then
  std::size_t first_row_ = 0, rows_ = 0;  // rows of the batch
  std::size_t skipped_ = 0;               // rows without logits, the first ones
  std::size_t taken_ = 0, sampled_ = 0;   // rows of this pass
  bool begun_ = false, prompt_read_ = false, decoding_ = false, taking_ = false;
};

}  // namespace cria
