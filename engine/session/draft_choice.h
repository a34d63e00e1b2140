// Which tokens are guessed next for an answer, and by whom.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/session/answer.h"
#include "engine/session/draft_control.h"

namespace cria {

/// What an answer's next pass guesses.
struct DraftChoice {
  std::size_t agree = 0;  ///< what speaks for it, as DraftControl counts it
  std::size_t of_model =
      0;  ///< tokens that the draft model is to guess; else the draft has been written
};

/// At most `most` tokens, as the answer's options have it: where it pays only, by the draft model
/// if there is one; else what a constraint leaves no choice about, or what followed the same words
/// before. The pass has them afterwards.
DraftChoice choose_draft(Answer& answer, bool has_model, std::size_t most,
                         const DraftControl& control, DraftControl::Pass& pass,
                         std::vector<TokenId>& draft);

}  // namespace cria
