// The tokens of a conversation that goes on turn by turn.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/values/text.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// Keeps the ids of what was said: an answer's text, tokenized anew as a part of the history, need
/// not give the ids that the model chose, and every id after a different one would have to be
/// evaluated again.
class Transcript {
 public:
  /// Ids of a rendered conversation (as encode_rendered). Where it begins with the last one and its
  /// answer, byte for byte and author for author, with the ids that these have already.
  std::vector<TokenId> encode(const Tokenizer& tokenizer, const jinja::Text& rendered);
  /// What the model answered to the conversation that was encoded last, and how that reads.
  void answered(const Tokenizer& tokenizer, std::span<const TokenId> ids, std::string_view text);

 private:
  [[nodiscard]] bool continued_by(const jinja::Text& rendered) const;

  jinja::Text text_;
  std::vector<TokenId> ids_;
};

}  // namespace cria
