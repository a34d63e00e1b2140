#include "engine/session/draft_choice.h"

#include <algorithm>

#include "engine/session/ngram_draft.h"

namespace cria {

DraftChoice choose_draft(Answer& answer, bool has_model, std::size_t most,
                         const DraftControl& control, DraftControl::Pass& pass,
                         std::vector<TokenId>& draft) {
  const Speculate way = answer.options().speculate;
  if (way == Speculate::Off || most == 0) return {};
  const bool measured = way == Speculate::Auto;
  if (measured && has_model) {
    const std::size_t n = std::min(most, control.length(kModelAgrees, pass, &pass.waits));
    pass.tokens += n;
    return {kModelAgrees, n};
  }
  answer.draft_forced(most, draft);
  const std::size_t agree =
      draft.empty() ? ngram_draft(answer.text(), answer.expected(), most, draft) : kForcedAgrees;
  if (measured) draft.resize(std::min(draft.size(), control.length(agree, pass, &pass.waits)));
  pass.tokens += draft.size();
  return {agree, 0};
}

}  // namespace cria
