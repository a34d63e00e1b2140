// Vocabularies of kind "llama", SentencePiece models with byte-pair merges by score; and of kind
// "gemma4", which write spaces and bytes as these do but list their merges.
#pragma once

#include <memory>

#include "tokenizer/tokenizer.h"

namespace cria {

/// Whether the vocabulary is of the second kind: it says so, or its pre-tokenizer is one that such
/// files name.
bool merges_are_listed(const Vocabulary& vocabulary);

/// Throws Error if the vocabulary is inconsistent. The vocabulary must outlive the tokenizer.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const Vocabulary& vocabulary);

}  // namespace cria
