#include "engine/session/answering.h"

#include <algorithm>
#include <cassert>

#include "engine/session/common_prefix.h"

namespace cria {

// The last token is evaluated again where all are known: its logits are wanted.
std::size_t Answering::missing() {
  const std::span<const TokenId> text = answer_.text(), wanted = text.first(text.size() - 1);
  if (!begun_) return text.size() - sequence_.reuse(every_row_ ? wanted.first(0) : wanted);
  if (shifts_ != answer_.shifts()) {
    agreed_ = common_prefix(sequence_.tokens(), text);
    shifts_ = answer_.shifts();
  }
  return text.size() - sequence_.truncate(std::min(agreed_, wanted.size()));
}

std::size_t Answering::add_to(Batch& batch, std::size_t most, std::span<const TokenId> draft) {
  const std::span<const TokenId> text = answer_.text();
  const std::size_t left = missing();
  known_ = text.size() - left;
  last_ = text.size() - 1;
  of_text_ = std::min({left, most, batch.room()});
  const bool all = of_text_ == left;
  added_.assign(text.begin() + static_cast<std::ptrdiff_t>(known_),
                text.begin() + static_cast<std::ptrdiff_t>(known_ + of_text_));
  if (all) {
    draft = draft.first(std::min(draft.size(), batch.room() - of_text_));
    added_.insert(added_.end(), draft.begin(), draft.end());
  }
  rows_ = all ? added_.size() - of_text_ + 1 : 0;
  if (every_row_ && !decoding_) rows_ = added_.size();
  looked_ = taken_ = 0;
  taking_ = true;
  if (!begun_) {
    answer_.found(known_);  // before anything is in the batch: what it calls may throw
    agreed_ = known_;
    shifts_ = answer_.shifts();
  }
  first_row_ = batch.add(sequence_, added_, added_.size() - rows_);
  begun_ = true;
  of_prompt_ = decoding_ ? 0 : of_text_;
  return added_.size();
}

void Answering::passed() {
  if (of_prompt_ != 0) answer_.evaluated(of_prompt_);
  agreed_ = known_ + of_text_;
  decoding_ = decoding_ || agreed_ > last_;
}

void Answering::take(std::size_t row, std::span<const float> logits) {
  if (!looks_at(row)) return;
  const std::size_t position = next_position();
  ++looked_;
  if (position < last_) return answer_.take_prompt(position, logits);
  const std::size_t before = answer_.text().size();
  answer_.take(logits);
  ++taken_;
  // The next row counts where this draw is the draft's token.
  const std::size_t next = of_text_ + taken_ - 1;
  taking_ = !answer_.ended() && answer_.text().size() == before + 1 && next < added_.size() &&
            answer_.text().back() == added_[next];
  if (taking_) ++agreed_;
}

void Answering::finish() { sequence_.truncate(common_prefix(sequence_.tokens(), answer_.text())); }

}  // namespace cria
