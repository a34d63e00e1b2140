// tokenizer.model: the vocabulary of a SentencePiece tokenizer as its library stores it.
// Format: a protocol buffer,
// https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
#pragma once

#include <span>
#include <string>

#include "tokenizer/hf/vocabulary_builder.h"

namespace cria {

/// Adds the pieces to the builder, and sets what else the file says: special ids, spaces,
/// normalization. Throws Error for what is no such file, and for kinds of models other than BPE.
void read_sentencepiece_model(std::span<const std::byte> bytes, const std::string& file,
                              VocabularyBuilder& to);

/// The bytes of a tokenizer.model that says the same of a vocabulary whose model is "llama".
std::string sentencepiece_model(const Vocabulary& vocabulary);

}  // namespace cria
