// Log-probabilities of a token, and of the likeliest.
#pragma once

#include "engine/session.h"

namespace cria {

/// logits: [n_vocab]. n: how many of the likeliest, at most n_vocab.
TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, std::size_t n);

}  // namespace cria
