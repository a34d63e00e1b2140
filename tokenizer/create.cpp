// The tokenizer that a vocabulary asks for.
#include "model/error.h"
#include "model/vocabulary.h"
#include "tokenizer/bpe/tokenizer.h"
#include "tokenizer/sentencepiece/tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace cria {

std::unique_ptr<Tokenizer> Tokenizer::create(const Vocabulary& vocabulary) {
  if (vocabulary.model == "llama" || merges_are_listed(vocabulary))
    return make_sentencepiece_tokenizer(vocabulary);
  if (vocabulary.model == "gpt2") return make_byte_pair_tokenizer(vocabulary);
  throw Error("",
              "unknown kind of tokenizer: expected llama (SentencePiece), gemma4 or gpt2 "
              "(byte-level BPE), got '" +
                  vocabulary.model + "'",
              "key tokenizer.ggml.model");
}

}  // namespace cria
