#include "engine/session/sequence_decoder.h"

#include <algorithm>

#include "engine/session/prefix_cache.h"

namespace cria {

// The last token is always evaluated, for its logits.
std::size_t SequenceDecoder::missing() {
  const std::span<const TokenId> text = answer_.text(), wanted = text.first(text.size() - 1);
  if (!begun_) return text.size() - sequence_.reuse(every_row_ ? wanted.first(0) : wanted);
  if (shifts_ != answer_.shifts()) {
    agreed_ = common_prefix(sequence_.tokens(), text);
    shifts_ = answer_.shifts();
  }
  return text.size() - sequence_.truncate(std::min(agreed_, wanted.size()));
}

void SequenceDecoder::add_to(Batch& batch, std::size_t most, std::span<const TokenId> draft) {
  const std::span<const TokenId> text = answer_.text();
  const std::size_t left = missing();
  known_ = text.size() - left;
  last_ = text.size() - 1;
  of_text_ = std::min({left, most, batch.capacity_left()});
  const bool all = of_text_ == left;
  const std::span<const TokenId> added = text.subspan(known_, of_text_);
  added_.assign(added.begin(), added.end());
  if (all) {
    draft = draft.first(std::min(draft.size(), batch.capacity_left() - of_text_));
    added_.insert(added_.end(), draft.begin(), draft.end());
  }
  rows_ = all ? added_.size() - of_text_ + 1 : 0;
  if (every_row_ && !prompt_read_) rows_ = added_.size();
  skipped_ = hidden_ ? added_.size() - rows_ : 0;
  rows_ += skipped_;
  taken_ = skipped_;
  sampled_ = 0;
  taking_ = true;
  if (!begun_) {
    answer_.found(known_);  // calls back and may throw: before the batch changes
    agreed_ = known_;
    shifts_ = answer_.shifts();
    sequence_.expect_departure(text.size());
  }
  first_row_ = batch.add(sequence_, added_, added_.size() - rows_);
  begun_ = true;
  of_prompt_ = prompt_read_ ? 0 : of_text_;
}

void SequenceDecoder::passed() {
  if (of_prompt_ != 0) answer_.evaluated(of_prompt_);
  agreed_ = known_ + of_text_;
  decoding_ = agreed_ > last_;
  prompt_read_ = prompt_read_ || decoding_;
}

void SequenceDecoder::take(std::size_t row, std::span<const float> logits) {
  if (!needs(row)) return;
  const std::size_t position = next_position();
  ++taken_;
  if (position < last_) return answer_.take_prompt(position, logits);
  const std::size_t before = answer_.text().size();
  answer_.take(logits);
  ++sampled_;
  // The next row counts if the sampled token is the draft's.
  const std::size_t next = of_text_ + sampled_ - 1;
  taking_ = !answer_.ended() && answer_.text().size() == before + 1 && next < added_.size() &&
            answer_.text().back() == added_[next];
  if (taking_) ++agreed_;
  if (!answer_.ended() && shifts_ != answer_.shifts()) decoding_ = missing() == 1;
}

std::size_t SequenceDecoder::kept_rows() const {
  if (shifts_ != answer_.shifts()) return 0;
  return std::min(rows_, known_ + of_text_ + accepted() - first_position());
}

void SequenceDecoder::finish() {
  sequence_.truncate(common_prefix(sequence_.tokens(), answer_.text()));
}

}  // namespace cria
