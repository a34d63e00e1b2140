// Prompts that ask a model to fill a gap in a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace cria {

/// A gap in a file. Control tokens in the texts are plain text.
struct FillText {
  struct File {
    std::string name, text;
  };
  std::string prefix, suffix;  ///< before and after the gap
  std::vector<File> files{};   ///< other files of the repository
};

struct FillPrompt {
  std::vector<TokenId> tokens;
  bool cut = false;  ///< parts of the text were left out
};

/// Returns the prompt, [BOS] [REP project SEP file … SEP current] PRE prefix SUF suffix MID. BOS
/// and what precedes it appear as the vocabulary has them. The vocabulary must have complete FIM
/// tokens. If the prompt exceeds `limit` tokens, it loses the first files one by one, then the
/// prefix its beginning and the suffix its end; at least a quarter of what is left for both is the
/// suffix's. It exceeds the limit only if the marker tokens alone do.
FillPrompt fill_prompt(const Tokenizer& tokenizer, const FillText& text,
                       std::size_t limit = SIZE_MAX);

}  // namespace cria
