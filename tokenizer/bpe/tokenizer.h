// Vocabularies of kind "gpt2": byte-level byte-pair encoding with merges by rank.
#pragma once

#include <memory>

#include "tokenizer/tokenizer.h"

namespace cria {

/// Throws Error if the vocabulary is inconsistent or its pre-tokenizer unknown. The vocabulary must
/// outlive the tokenizer.
std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(const Vocabulary& vocabulary);

}  // namespace cria
