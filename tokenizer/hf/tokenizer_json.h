// tokenizer.json: byte-pair vocabularies as Hugging Face's tokenizers library stores them.
// Format: https://github.com/huggingface/tokenizers (the JSON of its Tokenizer)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tokenizer/hf/vocabulary_builder.h"

namespace cria {

struct TokenizerJsonOptions {
  std::string pre = {};        ///< the name of the pre-tokenizer, if it is not to be recognized
  bool listed_merges = false;  ///< a vocabulary with byte tokens keeps its merges
};

/// Adds tokens and merges to the builder, and sets what else the file says: kind, pre-tokenizer,
/// BOS and EOS that are added. Byte-level vocabularies become "gpt2" ones, those with byte tokens
/// like <0x0A> "llama" ones whose scores order the merges as the file does, or "gemma4" ones that
/// list them. Throws Error for other kinds, and where no name of a pre-tokenizer is given and none
/// fits.
void read_tokenizer_json(const nlohmann::json& json, const std::string& file,
                         const TokenizerJsonOptions& options, VocabularyBuilder& to);

/// What a tokenizer.json says beside a tokenizer.model: tokens that were added, and whether BOS and
/// EOS are put around a text.
void read_added_tokens(const nlohmann::json& json, const std::string& file, VocabularyBuilder& to);

/// A tokenizer.json that says the same of a vocabulary whose model is "gpt2".
nlohmann::json tokenizer_json(const Vocabulary& vocabulary);

}  // namespace cria
