// A conversation as the text (and the tokens) that a model was trained on. Only ChatML now; the template
// engine is another issue.
#pragma once

#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace cria {

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

class ChatTemplate {
 public:
  /// The template of a vocabulary. Throws Error if its chat template is of a kind that is not known yet (says
  /// so).
  static ChatTemplate from_vocabulary(const Vocabulary& vocabulary);
  /// The whole conversation, with the opening of the assistant's answer at the end if wanted.
  [[nodiscard]] std::string render(const std::vector<ChatMessage>& messages,
                                   bool add_generation_prompt) const;
  /// Token ids of render(): markers become control tokens, what users wrote never does (no injection of
  /// control tokens).
  [[nodiscard]] std::vector<TokenId> encode(const Tokenizer& tokenizer,
                                            const std::vector<ChatMessage>& messages,
                                            bool add_generation_prompt) const;
};

}  // namespace cria
