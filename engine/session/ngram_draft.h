// Guesses ("drafts") of what comes next, evaluated together with the token that is certain: a pass
// over the weights costs hardly more for a few tokens than for one. The text does not depend on
// them: a guess counts where it is what is drawn. Here those that repeat what the text has said
// before.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/token_id.h"

namespace cria {

inline constexpr std::size_t kMaxDraft = 15;  ///< tokens that are guessed at once

/// Writes what followed the longest earlier occurrence of the text's end (the latest of several),
/// at most `most` tokens, going on through itself where it meets the end. `expected`: a text that
/// is looked at first. Returns how many tokens agree: 0, and no draft, where it is fewer than two.
std::size_t ngram_draft(std::span<const TokenId> text, std::span<const TokenId> expected,
                        std::size_t most, std::vector<TokenId>& draft);

}  // namespace cria
