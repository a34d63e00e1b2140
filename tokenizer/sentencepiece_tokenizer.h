// Vocabularies of kind "llama": SentencePiece models with byte-pair merges by score.
#pragma once

#include <memory>

#include "tokenizer/tokenizer.h"

namespace cria {

/// Throws Error if the vocabulary is inconsistent. The vocabulary must outlive the tokenizer.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const Vocabulary& vocabulary);

}  // namespace cria
